/* XML from clients and XML to them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/error.h"
#include "s3/xml_read.h"
#include "s3/xml_write.h"

/* The events of a document as one line: "<name" opens, "name=text" is a leaf, ">" closes. */
static int events_of(const char *document, char out[512]) {
    struct xml_reader *reader = NULL;
    struct xml_event event;
    size_t used = 0;
    out[0] = 0;
    int err = xml_reader_open(slice_of(document), &reader);
    while (!err && !(err = xml_next(reader, &event)) && event.kind != XML_END) {
        const char *format = event.kind == XML_OPEN    ? "<%s%.*s "
                             : event.kind == XML_CLOSE ? "%s>%.*s "
                                                       : "%s=%.*s ";
        used += (size_t)snprintf(out + used, 512 - used, format, event.name, (int)event.text.size,
                                 event.text.data);
    }
    xml_reader_close(&reader);
    return err;
}

static void assert_events(const char *document, const char *events) {
    char text[512];
    assert_int_equal(events_of(document, text), 0);
    assert_string_equal(text, events);
}

static void assert_refused(const char *document) {
    char text[512];
    assert_int_equal(events_of(document, text), ERR_MALFORMED_XML);
}

static void elements_are_open_or_leaves(void **state) {
    assert_events("<?xml version=\"1.0\"?>\n<A xmlns=\"http://x/\">\n <B>1</B>\n <C><D/></C></A>\n",
                  "<A B=1 <C D= C> A> ");
    assert_events("<A/>", "A= ");
    assert_events("<A></A>", "A= ");
    assert_events("<A><B/><B/></A>", "<A B= B= A> ");
    assert_events("<s:A xmlns:s=\"u\"><s:B>x</s:B></s:A>", "<A B=x A> ");
}

static void text_is_what_it_stands_for(void **state) {
    assert_events("<K>a&amp;b&lt;&gt;&quot;&apos;</K>", "K=a&b<>\"' ");
    assert_events("<K>x&#13;y&#x2F;</K>", "K=x\ry/ ");
    assert_events("<K><![CDATA[<a>&]]>b<!-- no -->c</K>", "K=<a>&bc ");
    assert_events("<K>日 本</K>", "K=日 本 ");
    assert_events("<K> </K>", "K=  ");
}

static void nothing_is_fetched_or_expanded(void **state) {
    assert_refused("<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>");
    assert_refused("<!DOCTYPE a SYSTEM \"http://127.0.0.1:1/\"><a/>");
    assert_refused(
        "<?xml version=\"1.0\"?><!DOCTYPE a [<!ENTITY x SYSTEM \"/etc/passwd\">]><a>&x;</a>");
    assert_refused("<a>&x;</a>");
}

static void broken_documents_are_refused(void **state) {
    const char *const broken[] = {"",
                                  "x",
                                  "<a>",
                                  "<a></b>",
                                  "<a/><b/>",
                                  "<a>t<b/></a>x",
                                  "<a x=1/>",
                                  "<a><b></a></b>",
                                  "<a><b/>text</a>",
                                  "<a>\xff</a>"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) assert_refused(broken[i]);
    assert_refused("<a><a><a><a><a><a><a><a><a/></a></a></a></a></a></a></a></a>");
}

static void what_is_written_is_escaped(void **state) {
    struct text xml _cleanup_text_ = {0};
    xml_begin(&xml);
    xml_open_root(&xml, "R");
    xml_element(&xml, "Key", SLICE_LITERAL("<&>\"'"));
    xml_element_u64(&xml, "Size", 18446744073709551615ull);
    xml_element_bool(&xml, "T", true);
    xml_element_time(&xml, "At", 1);
    xml_element_etag(&xml, SLICE_LITERAL("abc"));
    xml_element_key(&xml, "Plain", SLICE_LITERAL("a b/+"), false);
    xml_element_key(&xml, "Url", SLICE_LITERAL("a b/+\r"), true);
    xml_close(&xml, "R");
    assert_string_equal(xml.data, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                                  "<R xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
                                  "<Key>&lt;&amp;&gt;&quot;&#39;</Key>"
                                  "<Size>18446744073709551615</Size><T>true</T>"
                                  "<At>1970-01-01T00:00:00.001Z</At>"
                                  "<ETag>&quot;abc&quot;</ETag><Plain>a b/+</Plain>"
                                  "<Url>a%20b/%2B%0D</Url></R>");
}

static void what_is_written_can_be_read(void **state) {
    struct text xml _cleanup_text_ = {0};
    xml_begin(&xml);
    xml_open_root(&xml, "R");
    xml_element(&xml, "K", SLICE_LITERAL("a]]>\r\n&amp;\t日"));
    xml_close(&xml, "R");
    assert_events(xml.data, "<R K=a]]>\r\n&amp;\t日 R> ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_open_or_leaves),
        cmocka_unit_test(text_is_what_it_stands_for),
        cmocka_unit_test(nothing_is_fetched_or_expanded),
        cmocka_unit_test(broken_documents_are_refused),
        cmocka_unit_test(what_is_written_is_escaped),
        cmocka_unit_test(what_is_written_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
