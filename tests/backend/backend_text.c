/*
 * backend_text.c - both ways from a text to ids against a naive one, on random and on real texts.
 *
 *   backend_text                     the comparison; also real reviews if ITER_DATA has aclImdb
 *   backend_text --perf              reviews per second, 25,000 of them in memory
 *   backend_text --serve INDEX k=v.. ids for tests/python/check_text.py: stdin has frames of u32
 *                                    size and bytes; stdout gets i32 n and n ids, or -1, u32 size
 *                                    and a message
 */
#include <dirent.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <time.h>

#include <iter/rng.h>

#include "iter/core/alloc.h"
#include "loaders/files/file.h"
#include "loaders/text/text_tokens.h"
#include "tests/support/expect.h"
#include "tests/support/reference_text.h"

#define N_WAYS   2
#define TEXT_MAX 4096
#define IDS_MAX  (TEXT_MAX / 2 + 2)

static const iter__text_rule keras = {30000, 3, 1, 2, 150, 0, 0, 0};

/* ---- random texts ---------------------------------------------------------------------------- */

typedef struct ranked_word {
    const char *word;
    int64_t rank;
} ranked_word;

static const ranked_word words[] = {
    {"the", 1},
    {"a", 2},
    {"and", 3},
    {"it's", 4},
    {"br", 5},
    {"ab", 6},
    {"abc", 7},
    {"b", 8},
    {"sixteen-letters", 9},
    {"abcdefghijklmnop", 10},
    {"abcdefghijklmnopq", 11},
    {"abcdefghijklmnopr", 12},
    {"x", 13},
    {"donaudampfschifffahrtsgesellschaft", 14},
    {"z", 20},
    {"'", 15},
    {"d\xc3\xa9j\xc3\xa0", 16},
    {"\xcf\x83\xcf\x82", 17},
    {"i\xcc\x87", 18},
    {"\x7f", 19},
};
#define N_WORDS (sizeof(words) / sizeof(words[0]))

static void load_words(iter__text *text) {
    char json[2048] = "{";
    iter_error err;
    for (size_t i = 0; i < N_WORDS; i++) {
        const size_t at = strlen(json);
        snprintf(json + at, sizeof(json) - at, "%s\"%s\": %" PRId64, i ? ", " : "", words[i].word,
                 words[i].rank);
    }
    strcat(json, "}");
    if (!EXPECT_OK(iter__text_load_index(text, json, strlen(json), "words", &err), &err)) exit(1);
}

/* ---- random texts ---------------------------------------------------------------------------- */

static size_t add_text(uint8_t *out, size_t at, const char *text, size_t n) {
    if (at + n > TEXT_MAX) return at;
    memcpy(out + at, text, n);
    return at + n;
}

/* Words in any case, separators, and with `unicode` also characters beyond ASCII, some of them
 * invalid. */
static size_t random_text(iter_rng *rng, uint8_t *out, bool unicode) {
    static const char *const wide[] = {"\xc3\x89",     "\xc2\xa0",         "\xc2\x85",
                                       "\xce\xa3",     "\xcf\x83",         "\xc4\xb0",
                                       "\xe2\x80\xa9", "\xe3\x80\x80",     "\xcc\x81",
                                       "\xe2\x84\xaa", "\xf0\x90\x90\x80", "\xf0\x9f\x98\x80"};
    static const char *const wrong[] = {"\x80", "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"};
    const uint64_t n_words = iter_rng_below(rng, iter_rng_below(rng, 4) ? 40 : 500);
    size_t n = 0;
    for (uint64_t i = 0; i < n_words; i++) {
        const char *word = words[iter_rng_below(rng, 16)].word;
        const size_t begin = n;
        if (unicode && iter_rng_below(rng, 8) == 0) word = words[iter_rng_below(rng, N_WORDS)].word;
        n = add_text(out, n, word, strlen(word));
        if (iter_rng_below(rng, 3) == 0) {
            for (size_t k = begin; k < n; k++)
                if (out[k] >= 'a' && out[k] <= 'z' && iter_rng_below(rng, 2)) out[k] -= 'a' - 'A';
        }
        for (uint64_t k = iter_rng_below(rng, 4) / 2 * 2; k <= 2 && n < TEXT_MAX; k++)
            out[n++] = iter_rng_below(rng, 3) ? ' ' : (uint8_t)iter_rng_below(rng, 128);
        if (unicode && iter_rng_below(rng, 60) == 0) {
            const char *text = wide[iter_rng_below(rng, 12)];
            n = add_text(out, n, text, strlen(text));
        }
        if (unicode && iter_rng_below(rng, 2000) == 0) {
            const char *text = wrong[iter_rng_below(rng, 5)];
            n = add_text(out, n, text, strlen(text));
        }
    }
    return n;
}

static const iter__text_rule rules[] = {
    {0, 0, -1, -1, 0, 0, 0, 0},   {0, 3, 1, 2, 0, 0, 0, 0},    {12, 3, 1, 2, 150, 0, 0, 0},
    {0, 3, 1, 2, 20, -7, 0, 1},   {0, 3, -1, -1, 20, 9, 0, 0}, {0, 3, 1, 2, 20, 9, 1, 0},
    {0, 3, 1, -1, 150, 9, 1, 1},  {0, 3, 1, 2, 1, 0, 0, 0},    {0, 3, 1, 2, 1, 0, 1, 0},
    {20, 10, -1, 2, 33, 0, 0, 1}, {0, 0, 5, 0, 7, 0, 0, 0},
};

/* The text ends where its memory ends, so that a sanitizer sees one byte too many. */
static void compare(const iter__text *text, const uint8_t *bytes, size_t size, uint8_t *scratch) {
    static int32_t ids[IDS_MAX];
    int32_t *want = NULL;
    int64_t n, n_want;
    iter_error err;
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) exit(1);
    memcpy(copy, bytes, size);
    const int wrong = reference_text_ids(text, copy, size, &want, &n_want);
    for (int way = 0; way < N_WAYS; way++) {
        const iter__text_reader reader = {text, scratch, (iter__text_way)way};
        const iter_status status = iter__text_ids(&reader, copy, size, ids, IDS_MAX, &n, &err);
        if (wrong) {
            char part[64];
            snprintf(part, sizeof(part), "at byte %" PRId64 " ", n_want);
            EXPECT_ERROR(status, ITER_EFORMAT, &err, part);
        } else if (EXPECT_OK(status, &err) && EXPECT_EQ(n, n_want)) {
            EXPECT(memcmp(ids, want, (size_t)n * sizeof(int32_t)) == 0);
        }
    }
    free(want);
    free(copy);
}

static void random_texts(void) {
    static uint8_t bytes[TEXT_MAX];
    iter_rng rng = iter_rng_at(iter_rng_key(1, "text", 0), 0, 0);
    for (size_t r = 0; r < sizeof(rules) / sizeof(rules[0]); r++) {
        iter__text text = {.rule = rules[r]};
        load_words(&text);
        uint8_t *scratch = malloc(iter__text_scratch_bytes(&text));
        if (!scratch) exit(1);
        for (int i = 0; i < 400; i++) {
            const size_t size = random_text(&rng, bytes, i % 2);
            compare(&text, bytes, size, scratch);
            compare(&text, bytes, size % 70, scratch);
        }
        free(scratch);
        iter__vocab_free(&text.vocab);
    }
}

/* ---- real reviews ---------------------------------------------------------------------------- */

typedef struct reviews {
    uint8_t *bytes;
    size_t *begin; /* [n + 1] */
    size_t n, capacity_bytes;
} reviews;

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_text(const struct dirent *entry) {
    return strstr(entry->d_name, ".txt") != NULL;
}

static void load_folder(reviews *all, const char *folder) {
    struct dirent **entries = NULL;
    const int n = scandir(folder, &entries, is_text, by_name);
    for (int i = 0; i < n; i++) {
        char *path = iter__path_join(folder, entries[i]->d_name), *text = NULL;
        size_t bytes = 0;
        iter_error err;
        EXPECT_OK(iter__file_load(path, 1 << 20, &text, &bytes, &err), &err);
        if (all->begin[all->n] + bytes > all->capacity_bytes) {
            all->capacity_bytes = 2 * (all->capacity_bytes + bytes);
            all->bytes = realloc(all->bytes, all->capacity_bytes);
            if (!all->bytes) exit(1);
        }
        memcpy(all->bytes + all->begin[all->n], text, bytes);
        all->begin[all->n + 1] = all->begin[all->n] + bytes;
        all->n++;
        iter__free(text);
        iter__free(path);
        free(entries[i]);
    }
    free(entries);
}

/* Loads the 25,000 training reviews and Keras' index; returns false if they are missing. */
static bool load_imdb(reviews *all, iter__text *text) {
    const char *data = getenv("ITER_DATA");
    char path[4096];
    char *json = NULL;
    size_t bytes = 0;
    iter_error err;
    memset(all, 0, sizeof(*all));
    if (!data) return false;
    snprintf(path, sizeof(path), "%s/imdb_word_index.json", data);
    if (iter__file_load(path, UINT64_MAX, &json, &bytes, &err) < 0) return false;
    const iter_status status = iter__text_load_index(text, json, bytes, path, &err);
    iter__free(json);
    if (!EXPECT_OK(status, &err)) return false;
    all->begin = calloc(50001, sizeof(size_t));
    if (!all->begin) exit(1);
    snprintf(path, sizeof(path), "%s/aclImdb/train/neg", data);
    load_folder(all, path);
    snprintf(path, sizeof(path), "%s/aclImdb/train/pos", data);
    load_folder(all, path);
    return all->n == 25000;
}

/* CPU time of this thread: other programs on the machine do not count. */
static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run_all(const reviews *all, const iter__text_reader *reader, int32_t *ids) {
    iter_error err;
    for (size_t i = 0; i < all->n; i++) {
        int64_t n;
        const size_t begin = all->begin[i], size = all->begin[i + 1] - begin;
        EXPECT_OK(iter__text_ids(reader, all->bytes + begin, size, ids + 150 * i, 150, &n, &err),
                  &err);
    }
}

/* Both ways over real reviews, compared with the published set's sum. */
static void real_texts(bool perf) {
    static const char *const names[] = {"fast", "plain"};
    reviews all;
    iter__text text = {.rule = keras};
    if (!load_imdb(&all, &text)) {
        if (perf) SKIP("ITER_DATA has no aclImdb");
        printf("no real reviews: ITER_DATA has no aclImdb\n");
        free(all.begin);
        free(all.bytes);
        iter__vocab_free(&text.vocab);
        return;
    }
    uint8_t *scratch = malloc(iter__text_scratch_bytes(&text));
    int32_t *ids = calloc(all.n * 150, sizeof(int32_t));
    if (!scratch || !ids) exit(1);
    for (int round = 0; round < (perf ? 9 : 1); round++) {
        for (int way = 0; way < N_WAYS; way++) {
            const double t = seconds();
            const iter__text_reader reader = {&text, scratch, (iter__text_way)way};
            run_all(&all, &reader, ids);
            const double us = (seconds() - t) / (double)all.n * 1e6;
            int64_t sum = 0;
            for (size_t i = 0; i < all.n * 150; i++)
                sum += ids[i];
            EXPECT_EQ(sum, 4473629556);
            if (perf) printf("%s %.2f us/review%s", names[way], us, way + 1 < N_WAYS ? ", " : "\n");
        }
    }
    free(ids);
    free(scratch);
    free(all.begin);
    free(all.bytes);
    iter__vocab_free(&text.vocab);
}

/* ---- --serve --------------------------------------------------------------------------------- */

static void set_rule(iter__text_rule *rule, const char *text) {
    const struct {
        const char *name;
        int64_t *value;
    } numbers[] = {{"num_words=", &rule->num_words}, {"index_from=", &rule->index_from},
                   {"start=", &rule->start},         {"oov=", &rule->oov},
                   {"maxlen=", &rule->maxlen},       {"pad=", &rule->pad}};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        const size_t n = strlen(numbers[i].name);
        if (strncmp(text, numbers[i].name, n) == 0) *numbers[i].value = strtoll(text + n, NULL, 10);
    }
    if (strcmp(text, "side=first") == 0) rule->keep_first = 1;
    if (strcmp(text, "pad_side=pre") == 0) rule->pad_first = 1;
}

static void answer(const iter__text_reader *reader, const uint8_t *bytes, uint32_t size) {
    const int64_t capacity = iter__text_most_ids(&reader->text->rule, size) + 1;
    int32_t *ids = calloc((size_t)capacity, sizeof(int32_t));
    int64_t n;
    iter_error err;
    if (!ids) exit(1);
    int32_t n_out;
    if (iter__text_ids(reader, bytes, size, ids, capacity, &n, &err) < 0) {
        const uint32_t length = (uint32_t)strlen(err.message);
        n_out = -1;
        fwrite(&n_out, sizeof(n_out), 1, stdout);
        fwrite(&length, sizeof(length), 1, stdout);
        fwrite(err.message, 1, length, stdout);
    } else {
        n_out = (int32_t)n;
        fwrite(&n_out, sizeof(n_out), 1, stdout);
        fwrite(ids, sizeof(*ids), (size_t)n, stdout);
    }
    free(ids);
}

static int serve(int argc, char **argv) {
    iter__text text = {.rule = keras};
    iter__text_way way = ITER_TEXT_FAST;
    char *json = NULL;
    size_t bytes = 0;
    iter_error err;
    if (argc < 3) return 2;
    for (int i = 3; i < argc; i++) {
        set_rule(&text.rule, argv[i]);
        if (strcmp(argv[i], "way=plain") == 0) way = ITER_TEXT_PLAIN;
    }
    if (iter__file_load(argv[2], UINT64_MAX, &json, &bytes, &err) < 0 ||
        iter__text_load_index(&text, json, bytes, argv[2], &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    iter__free(json);
    uint8_t *scratch = malloc(iter__text_scratch_bytes(&text));
    uint32_t size;
    while (scratch && fread(&size, sizeof(size), 1, stdin) == 1) {
        uint8_t *in = malloc(size ? size : 1);
        if (!in || fread(in, 1, size, stdin) != size) return 1;
        const iter__text_reader reader = {&text, scratch, way};
        answer(&reader, in, size);
        free(in);
    }
    free(scratch);
    iter__vocab_free(&text.vocab);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--serve") == 0) return serve(argc, argv);
    const bool perf = argc > 1 && strcmp(argv[1], "--perf") == 0;
    if (!perf) random_texts();
    real_texts(perf);
    EXPECT_EQ(iter__alloc_live(), 0);
    return EXPECT_DONE();
}
