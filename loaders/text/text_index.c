/*
 * text_index.c - word lists: Keras' {"word": rank, ...} and a word a line.
 *
 * The index is one flat JSON object of strings and whole numbers. Anything else that JSON allows is
 * an error that names the byte. If two keys are equal, the last one counts, as in Python. Source:
 * RFC 8259.
 */
#include <inttypes.h>

#include "iter/core/alloc.h"
#include "iter/core/arith.h"
#include "iter/core/error.h"
#include "loaders/text/text_tokens.h"
#include "loaders/text/text_utf8.h"

typedef struct json_reader {
    const char *name;
    const uint8_t *text;
    size_t size, at;
    uint8_t *word; /* [size], the key without its escapes */
    iter_error *err;
} json_reader;

static iter_status fail_at(const json_reader *r, size_t at, const char *what) {
    return iter__fail(r->err, ITER_EFORMAT, "%s: byte %zu: %s", r->name, at, what);
}

/* The byte at the cursor, 0 at the end. A NUL in the text is not valid JSON either. */
static uint8_t peek(const json_reader *r) {
    return r->at < r->size ? r->text[r->at] : 0;
}

static void skip_blanks(json_reader *r) {
    while (peek(r) == ' ' || peek(r) == '\t' || peek(r) == '\n' || peek(r) == '\r')
        r->at++;
}

static iter_status expect(json_reader *r, uint8_t byte, const char *what) {
    skip_blanks(r);
    if (peek(r) != byte)
        return fail_at(r, r->at, r->at < r->size ? what : "the text ends here, it is cut short");
    r->at++;
    return ITER_OK;
}

/* Four hex digits after \u, or UINT32_MAX. */
static uint32_t hex_four(json_reader *r) {
    uint32_t code = 0;
    if (r->size - r->at < 4) return UINT32_MAX;
    for (int i = 0; i < 4; i++) {
        const uint8_t c = r->text[r->at + i], letter = c | 0x20;
        if (c >= '0' && c <= '9') {
            code = code * 16 + (c - '0');
        } else if (letter >= 'a' && letter <= 'f') {
            code = code * 16 + (letter - 'a' + 10u);
        } else {
            return UINT32_MAX;
        }
    }
    r->at += 4;
    return code;
}

/* The code point of a \u escape, whose first six bytes begin at `from`; the cursor is after \u. */
static iter_status read_unicode(json_reader *r, size_t from, uint32_t *out) {
    uint32_t code = hex_four(r);
    if (code == UINT32_MAX) return fail_at(r, from, "\\u without four hex digits");
    if (code >= 0xd800 && code < 0xdc00) {
        uint32_t low = UINT32_MAX;
        if (r->size - r->at >= 2 && r->text[r->at] == '\\' && r->text[r->at + 1] == 'u') {
            r->at += 2;
            low = hex_four(r);
        }
        if (low < 0xdc00 || low > 0xdfff)
            return fail_at(r, from, "a high surrogate without its low one");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
        return fail_at(r, from, "a low surrogate without its high one");
    }
    *out = code;
    return ITER_OK;
}

/* Reads one escape, with the cursor after the backslash, into r->word. */
static iter_status read_escape(json_reader *r, size_t *length) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const size_t from = r->at - 1;
    const uint8_t c = peek(r);
    const char *found = c ? strchr(names, c) : NULL;
    uint32_t code = 0;
    if (found) {
        r->at++;
        r->word[(*length)++] = (uint8_t)values[found - names];
        return ITER_OK;
    }
    if (c != 'u') return fail_at(r, from, "an escape that JSON does not know");
    r->at++;
    ITER_TRY(read_unicode(r, from, &code));
    *length += iter__utf8_put(r->word + *length, code);
    return ITER_OK;
}

/* Reads a string, with the cursor after its opening quote, into r->word. */
static iter_status read_key(json_reader *r, size_t *out_length) {
    const size_t from = r->at - 1;
    size_t length = 0;
    for (;;) {
        if (r->at >= r->size) return fail_at(r, from, "a string that does not end");
        const uint8_t c = r->text[r->at];
        if (c < 0x20) return fail_at(r, r->at, "a control character in a string");
        r->at++;
        if (c == '"') break;
        if (c == '\\') {
            ITER_TRY(read_escape(r, &length));
        } else {
            r->word[length++] = c;
        }
    }
    *out_length = length;
    return ITER_OK;
}

static iter_status read_rank(json_reader *r, int64_t *out) {
    skip_blanks(r);
    const size_t from = r->at;
    int64_t rank = 0;
    while (peek(r) >= '0' && peek(r) <= '9') {
        rank = rank * 10 + (peek(r) - '0');
        if (rank > INT32_MAX) return fail_at(r, from, "a rank above 2147483647");
        r->at++;
    }
    const uint8_t next = peek(r);
    if (r->at == from || next == '.' || next == 'e' || next == 'E')
        return fail_at(r, from, "a rank must be a whole number, 0 or more");
    if (r->text[from] == '0' && r->at > from + 1)
        return fail_at(r, from, "a number that begins with 0");
    *out = rank;
    return ITER_OK;
}

/* Puts the word under its rank's id, if the rule allows that id. */
static iter_status add_word(iter__text *text, const uint8_t *word, size_t length, int64_t rank,
                            iter_error *err) {
    const int64_t id = rank + text->rule.index_from;
    const bool known = text->rule.num_words == 0 || id < text->rule.num_words;
    if (length == 0) return ITER_OK;
    if (known && id > INT32_MAX) {
        return iter__fail(err, ITER_EFORMAT, "rank %" PRId64 " makes an id above 2147483647", rank);
    }
    if (!known && iter__vocab_find(&text->vocab, word, length) < 0) return ITER_OK;
    return iter__vocab_put(&text->vocab, word, length, known ? (int32_t)id : -1, err);
}

static iter_status read_members(json_reader *r, iter__text *text) {
    ITER_TRY(expect(r, '{', "a JSON object {\"word\": rank, ...} is expected"));
    skip_blanks(r);
    if (peek(r) == '}') {
        r->at++;
        return ITER_OK;
    }
    for (;;) {
        size_t length = 0;
        int64_t rank = 0;
        ITER_TRY(expect(r, '"', "a word in quotes is expected"));
        ITER_TRY(read_key(r, &length));
        ITER_TRY(expect(r, ':', "':' is expected"));
        ITER_TRY(read_rank(r, &rank));
        const iter_status status = add_word(text, r->word, length, rank, r->err);
        if (status < 0) return iter__fail_in(r->err, status, "%s: byte %zu", r->name, r->at);
        skip_blanks(r);
        if (peek(r) == '}') break;
        ITER_TRY(expect(r, ',', "',' or '}' is expected"));
    }
    r->at++;
    return ITER_OK;
}

/* Makes room for the words that the rule can give ids to, and checks that the text is UTF-8. */
static iter_status begin_load(iter__text *text, const uint8_t *bytes, size_t size, const char *name,
                              iter_error *err) {
    const size_t bad = iter__utf8_check(bytes, size);
    if (bad < size) return iter__fail(err, ITER_EFORMAT, "%s: byte %zu: invalid UTF-8", name, bad);
    const size_t at_most = size / 6 + 1; /* "a":1, */
    const size_t wanted = text->rule.num_words == 0 ? at_most / 4 : (size_t)text->rule.num_words;
    const iter_status status = iter__vocab_init(&text->vocab, iter__min_size(wanted, at_most), err);
    return status < 0 ? iter__fail_in(err, status, "%s", name) : ITER_OK;
}

static iter_status end_load(iter__text *text, iter_status status, const char *name,
                            iter_error *err) {
    if (status == ITER_OK && text->vocab.n_words == 0)
        status = iter__fail(err, ITER_EFORMAT, "%s: no word that could get an id", name);
    if (status == ITER_OK) {
        status = iter__vocab_settle(&text->vocab, err);
        if (status < 0) iter__fail_in(err, status, "%s", name);
    }
    if (status < 0) iter__vocab_free(&text->vocab);
    return status;
}

iter_status iter__text_load_index(iter__text *text, const char *json, size_t size, const char *name,
                                  iter_error *err) {
    json_reader r = {name, (const uint8_t *)json, size, 0, NULL, err};
    ITER_TRY(begin_load(text, r.text, size, name, err));
    r.word = iter__alloc(size + 1, 1);
    iter_status status = r.word ? read_members(&r, text)
                                : iter__fail(err, ITER_ENOMEM, "%s: no memory to read it", name);
    if (status == ITER_OK) {
        skip_blanks(&r);
        if (r.at < r.size) status = fail_at(&r, r.at, "something follows the object");
    }
    iter__free(r.word);
    return end_load(text, status, name, err);
}

iter_status iter__text_load_list(iter__text *text, const char *lines, size_t size, const char *name,
                                 iter_error *err) {
    const uint8_t *bytes = (const uint8_t *)lines;
    ITER_TRY(begin_load(text, bytes, size, name, err));
    iter_status status = ITER_OK;
    int64_t rank = 0;
    for (size_t i = 0; i < size && status == ITER_OK;) {
        const uint8_t *newline = memchr(bytes + i, '\n', size - i);
        const size_t end = newline ? (size_t)(newline - bytes) : size;
        size_t length = end - i;
        if (length > 0 && bytes[end - 1] == '\r') length--;
        rank++;
        status = add_word(text, bytes + i, length, rank, err);
        if (status < 0) iter__fail_in(err, status, "%s: line %" PRId64, name, rank);
        i = end + 1;
    }
    return end_load(text, status, name, err);
}
