"""Fail when a file includes what src/LAYERS does not allow its layer to include."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def allowed_layers() -> dict[str, set[str]]:
    layers = {}
    for line in (ROOT / "src/LAYERS").read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            name, _, below = line.partition(":")
            layers[name.strip()] = {name.strip(), *below.split()}
    return layers


def main() -> int:
    layers = allowed_layers()
    wrong = []
    for path in sorted((ROOT / "src").rglob("*.[ch]")):
        relative = path.relative_to(ROOT / "src")
        layer = relative.parts[0]
        for included in INCLUDE.findall(path.read_text()):
            target = included.split("/")[0]
            if included == "penstock.h":
                if layer not in ("client", "cli"):
                    wrong.append(f"src/{relative}: only client/ and cli/ use the public API")
            elif "/" not in included:
                wrong.append(f'src/{relative}: write "{layer}/{included}"')
            elif target not in layers.get(layer, set()):
                wrong.append(f"src/{relative}: {layer}/ may not include {included}")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
