/* See scenario_file.h. */
#include "scenario_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static char *read_whole(struct arena *arena, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    char *text = NULL;
    size_t capacity = 0;
    size_t len = 0;
    size_t got = 0;
    do {
        if (len + 1 >= capacity) {
            text = arena_grow(arena, text, len, &capacity, 1);
        }
        got = fread(text + len, 1, capacity - len - 1, file);
        len += got;
    } while (got > 0);
    bool failed = ferror(file) != 0;
    fclose(file);
    text[len] = '\0';
    return failed ? NULL : text;
}

/* Where the comment of a line begins: a '#' outside quotes, first or behind a blank. */
static char *find_comment(char *text)
{
    bool quoted = false;
    for (char *at = text; *at != '\0'; at++) {
        if (*at == '"') {
            quoted = !quoted;
        } else if (*at == '#' && !quoted && (at == text || at[-1] == ' ')) {
            return at;
        }
    }
    return NULL;
}

static void cut_blanks_at_end(char *text)
{
    size_t len = strlen(text);
    while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\r')) {
        text[--len] = '\0';
    }
}

/* NULL for an empty line. */
static struct line *line_make(struct arena *arena, char *text, int number)
{
    int indent = (int)strspn(text, " ");
    text += indent;
    char *comment = find_comment(text);
    bool is_comment = comment == text;
    if (comment != NULL && !is_comment) {
        *comment = '\0';
    }
    cut_blanks_at_end(text);
    if (*text == '\0') {
        return NULL;
    }
    struct line *line = arena_alloc(arena, sizeof(*line));
    line->number = number;
    line->indent = indent;
    line->is_comment = is_comment;
    line->text = is_comment ? text + 1 + strspn(text + 1, " ") : text;
    return line;
}

#define DEPTH 8

/* The lines above that this one may belong to, each deeper than the one before. */
struct nesting {
    struct line *at[DEPTH];
    struct line **tail[DEPTH + 1]; /* where the next line of that depth goes */
    int depth;
};

/* False when it is nested too deep. */
static bool nest(struct nesting *n, struct line *line)
{
    while (n->depth > 0 && n->at[n->depth - 1]->indent >= line->indent) {
        n->depth--;
    }
    *n->tail[n->depth] = line;
    n->tail[n->depth] = &line->next;
    if (line->is_comment) {
        return true;
    }
    if (n->depth == DEPTH) {
        return false;
    }
    n->at[n->depth] = line;
    n->depth++;
    n->tail[n->depth] = &line->children;
    return true;
}

bool scenario_read(struct arena *arena, const char *path, struct scenario *out,
                   const char **problem)
{
    char *text = read_whole(arena, path);
    if (text == NULL) {
        *problem = arena_format(arena, "%s: %s", path, strerror(errno));
        return false;
    }
    *out = (struct scenario){.path = path};
    struct nesting nesting = {.tail = {&out->lines}};
    int number = 0;
    while (text != NULL) {
        char *end = strchr(text, '\n');
        if (end != NULL) {
            *end = '\0';
        }
        number++;
        if (strchr(text, '\t') != NULL) {
            *problem = arena_format(arena, "%s:%d: a tab; indent with spaces", path, number);
            return false;
        }
        struct line *line = line_make(arena, text, number);
        if (line != NULL && !nest(&nesting, line)) {
            *problem = arena_format(arena, "%s:%d: indented too deep", path, number);
            return false;
        }
        text = end == NULL ? NULL : end + 1;
    }
    if (out->lines == NULL || !out->lines->is_comment) {
        *problem = arena_format(
            arena, "%s:1: a scenario begins with a comment that says what it shows", path);
        return false;
    }
    return true;
}

const char *line_joined(struct arena *arena, const struct line *line)
{
    const char *text = line->text;
    for (const struct line *more = line->children; more != NULL; more = more->next) {
        if (!more->is_comment) {
            text = arena_format(arena, "%s %s", text, line_joined(arena, more));
        }
    }
    return text;
}

const char *find_arrow(const char *text)
{
    bool quoted = false;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"') {
            quoted = !quoted;
        } else if (!quoted && at[0] == '-' && at[1] == '>') {
            return at;
        }
    }
    return NULL;
}
