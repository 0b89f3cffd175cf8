/*
 * train_common_files.c - writes small sets in the real sets' formats. If the real sets are missing,
 * the training programs still run and have something to learn. An image is its class's pattern with
 * noise; a review consists of words, some of which praise or condemn; in a document each word is
 * one of four that may follow the word before.
 *
 * The bytes are always the same: random numbers are splitmix64 (Steele, Lea, Flood 2014).
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "train_common.h"

#define N_TRAIN   2000
#define N_TEST    500
#define N_CLASSES 10

static uint64_t next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static FILE *create(const char *folder, const char *name) {
    char path[TRAIN_PATH_MAX + 64];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return fopen(path, "wb");
}

static bool finish(FILE *file) {
    const bool good = !ferror(file);
    return fclose(file) == 0 && good;
}

/* Stripes whose width, direction and colour belong to the class, partly covered by noise. */
static void make_image(uint64_t *state, int class, int channels, int side, uint8_t *out) {
    const int shift = (int)(next(state) % 8);
    for (int c = 0; c < channels; c++)
        for (int y = 0; y < side; y++)
            for (int x = 0; x < side; x++) {
                const int across = class % 2 == 0 ? x + y * (class / 4) : y + x * (class / 4);
                const int stripe = (across * (1 + class % 5) + shift) % 32;
                const int shade = (stripe < 16 ? stripe : 31 - stripe) * 8 + 20 * (c == class % 3);
                *out++ = (uint8_t)((shade + (int)(next(state) % 96)) & 0xff);
            }
}

/* ---- CIFAR-10: records of a label byte and three planes of 32 x 32 --------------------------- */

static bool write_records(const char *folder, const char *name, uint64_t seed, int n) {
    uint8_t record[1 + 3 * 32 * 32];
    FILE *file = create(folder, name);
    if (file == NULL) return false;
    for (int i = 0; i < n; i++) {
        record[0] = (uint8_t)(next(&seed) % N_CLASSES);
        make_image(&seed, record[0], 3, 32, record + 1);
        fwrite(record, 1, sizeof(record), file);
    }
    return finish(file);
}

bool train_generate_cifar(const char *folder) {
    char name[32];
    for (int i = 1; i <= 5; i++) {
        snprintf(name, sizeof(name), "data_batch_%d.bin", i);
        if (!write_records(folder, name, (uint64_t)i, N_TRAIN / 5)) return false;
    }
    return write_records(folder, "test_batch.bin", 6, N_TEST);
}

/* ---- MNIST: a file of images and one of labels, each after its counts ------------------------ */

/* Magic number and counts, most significant byte first. */
static void put_header(FILE *file, uint32_t magic, int n, bool images) {
    const uint32_t words[] = {magic, (uint32_t)n, 28, 28};
    for (int i = 0; i < (images ? 4 : 2); i++)
        for (int shift = 24; shift >= 0; shift -= 8)
            fputc((int)(words[i] >> shift & 0xff), file);
}

static bool write_pair(const char *folder, const char *split, uint64_t seed, int n) {
    char name[64];
    uint8_t image[28 * 28];
    snprintf(name, sizeof(name), "%s-images-idx3-ubyte", split);
    FILE *images = create(folder, name);
    snprintf(name, sizeof(name), "%s-labels-idx1-ubyte", split);
    FILE *labels = create(folder, name);
    if (images != NULL && labels != NULL) {
        put_header(images, 0x803, n, true);
        put_header(labels, 0x801, n, false);
        for (int i = 0; i < n; i++) {
            const int class = (int)(next(&seed) % N_CLASSES);
            fputc(class, labels);
            make_image(&seed, class, 1, 28, image);
            fwrite(image, 1, sizeof(image), images);
        }
    }
    const bool good = images != NULL && finish(images);
    return labels != NULL && finish(labels) && good;
}

bool train_generate_mnist(const char *folder) {
    return write_pair(folder, "train", 1, N_TRAIN) && write_pair(folder, "t10k", 2, N_TEST);
}

/* ---- IMDB: a file per review, and the list of words by rank ---------------------------------- */

static const char *const plain[] = {"the",  "a",     "and",  "of",    "film",  "story",
                                    "was",  "it",    "in",   "to",    "actor", "scene",
                                    "with", "music", "that", "which", "plot",  "camera"};
static const char *const verdicts[2][6] = {
    {"dull", "awful", "boring", "waste", "worst", "clumsy"},
    {"wonderful", "moving", "superb", "loved", "best", "brilliant"}};

#define N_PLAIN (sizeof(plain) / sizeof(plain[0]))

/* A tenth of the words express the reviewer's opinion; one in five of these says the opposite. */
static bool write_review(const char *folder, const char *name, int good, uint64_t *state) {
    FILE *file = create(folder, name);
    if (file == NULL) return false;
    const uint64_t n = 30 + next(state) % 150;
    for (uint64_t i = 0; i < n; i++) {
        const bool verdict = i + 1 == n || next(state) % 10 == 0;
        const int side = next(state) % 5 == 0 ? 1 - good : good;
        fprintf(file, "%s ",
                verdict ? verdicts[side][next(state) % 6] : plain[next(state) % N_PLAIN]);
    }
    return finish(file);
}

static bool write_reviews(const char *folder, const char *split, int n, uint64_t seed) {
    char path[64];
    for (int i = -2; i < n; i++) {
        char whole[TRAIN_PATH_MAX + 64];
        const int good = i & 1;
        if (i < 0) { /* first make the folders */
            snprintf(path, sizeof(path), "%s/%s", split, good ? "pos" : "neg");
            snprintf(whole, sizeof(whole), "%s/%s", folder, path);
            if (mkdir(whole, 0755) < 0) return false;
            continue;
        }
        snprintf(path, sizeof(path), "%s/%s/%d_5.txt", split, good ? "pos" : "neg", i / 2);
        if (!write_review(folder, path, good, &seed)) return false;
    }
    return true;
}

bool train_generate_imdb(const char *folder) {
    char path[TRAIN_PATH_MAX + 64];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, i == 0 ? "train" : "test");
        if (mkdir(path, 0755) < 0) return false;
    }
    FILE *file = create(folder, "imdb_word_index.json");
    if (file == NULL) return false;
    int rank = 1;
    for (size_t i = 0; i < N_PLAIN; i++)
        fprintf(file, "%s\"%s\": %d", rank == 1 ? "{" : ", ", plain[i], rank), rank++;
    for (int i = 0; i < 12; i++)
        fprintf(file, ", \"%s\": %d", verdicts[i / 6][i % 6], rank++);
    fputs("}\n", file);
    return finish(file) && write_reviews(folder, "train", N_TRAIN, 1) &&
           write_reviews(folder, "test", N_TEST, 2);
}

/* ---- Documents of word ids: Megatron's index and tokens -------------------------------------- */

#define N_WORDS 200

/* Little-endian. */
static void put_number(FILE *file, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        fputc((int)(value >> 8 * i & 0xff), file);
}

/* Id 1, then words of which each is one of four that may follow the word before. */
static void write_document(FILE *file, int n, uint64_t *state) {
    uint64_t word = 1;
    for (int i = 0; i < n; i++) {
        put_number(file, word, 2);
        word = 3 + (word * 31 + next(state) % 4 * 17) % N_WORDS;
    }
}

static bool write_documents(const char *folder, const char *split, int n, uint64_t seed) {
    char name[32];
    int sizes[N_TRAIN];
    snprintf(name, sizeof(name), "%s.bin", split);
    FILE *file = create(folder, name);
    if (file == NULL) return false;
    for (int i = 0; i < n; i++) {
        sizes[i] = 10 + (int)(next(&seed) % 100);
        write_document(file, sizes[i], &seed);
    }
    snprintf(name, sizeof(name), "%s.idx", split);
    if (!finish(file) || (file = create(folder, name)) == NULL) return false;
    fwrite("MMIDIDX\0", 1, 9, file);
    put_number(file, 1, 8); /* version */
    put_number(file, 8, 1); /* u16 */
    put_number(file, (uint64_t)n, 8);
    put_number(file, (uint64_t)n + 1, 8);
    for (int i = 0; i < n; i++)
        put_number(file, (uint64_t)sizes[i], 4);
    uint64_t place = 0;
    for (int i = 0; i < n; place += 2 * (uint64_t)sizes[i++])
        put_number(file, place, 8);
    for (int i = 0; i <= n; i++)
        put_number(file, (uint64_t)i, 8);
    return finish(file);
}

bool train_generate_documents(const char *folder) {
    return write_documents(folder, "train", N_TRAIN, 1) &&
           write_documents(folder, "test", N_TEST, 2);
}
