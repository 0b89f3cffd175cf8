/* pack_info.c - `iterpack info`: reads every record of a .rec file and prints a summary. */
#include <inttypes.h>
#include <stdlib.h>

#include "loaders/files/jpeg_copies.h"
#include "tools/iterpack/iterpack.h"
#include "tools/iterpack/pack_remote.h"
#include "tools/iterpack/pack_seekable.h"

typedef struct look {
    uint64_t n, n_cut, n_bad, least, most, sum;
    uint64_t contents[PACK_CONTENTS], n_seekable, n_copied;
    uint32_t least_labels, most_labels;
    float least_label, most_label;
} look;

static void count(look *l, const pack_reader *reader) {
    const size_t n = reader->n_content;
    const uint32_t n_labels = reader->n_labels;
    if (l->n == 0 || n < l->least) l->least = n;
    if (n > l->most) l->most = n;
    if (l->n == 0 || n_labels < l->least_labels) l->least_labels = n_labels;
    if (n_labels > l->most_labels) l->most_labels = n_labels;
    for (uint32_t i = 0; i < n_labels; i++) {
        const float label = reader->labels[i];
        if ((l->n == 0 && i == 0) || label < l->least_label) l->least_label = label;
        if ((l->n == 0 && i == 0) || label > l->most_label) l->most_label = label;
    }
    l->sum += n;
    l->n_bad += !reader->has_header;
    l->n_cut += reader->n_pieces > 1;
    const pack_content content = pack_content_of(reader->content, n);
    l->contents[content]++;
    l->n_seekable += content == PACK_JPEG && pack_seekable_is(reader->content, n);
    size_t copy_n;
    l->n_copied += content == PACK_JPEG && iter__jpeg_copy_find(reader->content, n, 8, &copy_n);
    l->n++;
}

static void print_look(const char *path, const look *l, uint64_t bytes) {
    static const char *const names[PACK_CONTENTS] = {"JPEG", "PNG", "WebP", "empty", "other"};
    char *idx = pack_idx_path(path), kinds[160] = "";
    pack_line("%s: %" PRIu64 " records, %" PRIu64 " bytes, %s index", path, l->n, bytes,
              iter__path_exists(idx) ? "with" : "no");
    free(idx);
    if (l->n == 0) return;
    for (int i = 0, n = 0; i < PACK_CONTENTS; i++)
        if (l->contents[i])
            n += snprintf(kinds + n, sizeof(kinds) - (size_t)n, " %" PRIu64 " %s", l->contents[i],
                          names[i]);
    pack_line("  content  %" PRIu64 " to %" PRIu64 " bytes, %" PRIu64 " on average:%s", l->least,
              l->most, l->sum / l->n, kinds);
    if (l->least_labels == l->most_labels) {
        pack_line("  labels   %u a record, %g to %g", l->most_labels, (double)l->least_label,
                  (double)l->most_label);
    } else {
        pack_line("  labels   %u to %u a record, %g to %g", l->least_labels, l->most_labels,
                  (double)l->least_label, (double)l->most_label);
    }
    if (l->n_seekable)
        pack_line("  seekable %" PRIu64 " of the JPEGs have restart markers", l->n_seekable);
    if (l->n_copied)
        pack_line("  scales   %" PRIu64 " of the JPEGs have copies for smaller sizes", l->n_copied);
    if (l->n_cut)
        pack_line("  pieces   %" PRIu64 " records are split, as they contain the magic", l->n_cut);
    if (l->n_bad) pack_line("  header   %" PRIu64 " records have none", l->n_bad);
}

static int info_file(const char *path) {
    pack_reader reader;
    look l = {0};
    iter_error err;
    bool more = true;
    int status = pack_reader_open(&reader, path);
    while (status == PACK_DONE && more) {
        status = pack_reader_next(&reader, &more, &err);
        if (status != PACK_DONE) pack_fail("%s", err.message);
        if (status == PACK_DONE && more) count(&l, &reader);
    }
    if (status == PACK_DONE) print_look(path, &l, reader.window.file.bytes);
    pack_reader_close(&reader);
    return status;
}

int pack_cmd_info(int n_args, char **args) {
    const char **words = pack_memory(NULL, (size_t)n_args, sizeof(*words));
    bool anonymous = false; /* pack_remote_open() has read it */
    const pack_option rows[] = {PACK_ANONYMOUS_ROW(&anonymous), {NULL, PACK_FLAG, NULL, 0, 0}};
    int n_words = 0;
    int status = pack_options(n_args, args, rows, words, n_args, &n_words);
    if (status == PACK_DONE && n_words == 0) status = pack_usage("info: a .rec is needed");
    for (int i = 0; i < n_words && status == PACK_DONE; i++)
        status = info_file(words[i]);
    free(words);
    return status;
}
