/* S3's XML answers by libxml2, without entities and network. Namespaces are ignored: S3 servers
 * differ in them. */
#include "client/answer.h"

#include <libxml/parser.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

xmlDoc *answer_parse(struct slice text) {
    return xmlReadMemory(text.data, (int)text.size, NULL, NULL,
                         XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
}

static xmlNode *find(xmlNode *node, const char *name) {
    for (; node; node = node->next)
        if (node->type == XML_ELEMENT_NODE && !strcmp((const char *)node->name, name)) return node;
    return NULL;
}

xmlNode *answer_first(const xmlNode *parent, const char *name) {
    return parent ? find(parent->children, name) : NULL;
}

xmlNode *answer_next(const xmlNode *node, const char *name) {
    return find(node->next, name);
}

char *answer_text(const xmlNode *parent, const char *name) {
    xmlNode *node = answer_first(parent, name);
    xmlChar *content = node ? xmlNodeGetContent(node) : NULL;
    char *text = strdup(content ? (const char *)content : "");
    xmlFree(content);
    return text;
}

void answer_read_error(struct slice text, ps_result *result) {
    xmlDoc *doc = text.size ? answer_parse(text) : NULL;
    xmlNode *root = doc ? xmlDocGetRootElement(doc) : NULL;
    if (root && !strcmp((const char *)root->name, "Error")) {
        char *code = answer_text(root, "Code"), *message = answer_text(root, "Message");
        snprintf(result->code, sizeof(result->code), "%s", code ? code : "");
        snprintf(result->message, sizeof(result->message), "%s", message ? message : "");
        free(code);
        free(message);
    }
    xmlFreeDoc(doc);
}
