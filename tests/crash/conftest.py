"""The crash tests start their own servers; they share only the helpers of tests/."""
