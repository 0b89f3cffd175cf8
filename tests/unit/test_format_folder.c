/* test_format_folder.c - folders as classes, lists of all kinds, and their faults. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iter/iter.h>

#include "iter/core/alloc.h"
#include "tests/support/builtin_tables.h"
#include "tests/support/make_data.h"

#define FORMAT iter__format_folder
#include "tests/support/format_expect.h"

TestSuite(format_folder, .timeout = 60);

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Sample i must be this file, and read as these bytes. */
static void expect_file(const opened *f, uint64_t i, const char *folder, const char *name) {
    char path[MAKE_PATH_MAX], text[64];
    iter_extent x;
    f->ops->locate(f->state, i, &x);
    cr_assert_str_eq(f->desc.files[x.object].path, make_path(path, folder, name));
    cr_assert_eq(format_read(f, i, 0, text, sizeof(text)), strlen(name));
    cr_assert_arr_eq(text, name, strlen(name));
}

static int32_t label_of(const opened *f, uint64_t i) {
    int32_t label = -99;
    f->ops->index_row(f->state, i, 1, &label);
    return label;
}

/* Makes a file that contains its own name, and the folders on the way. */
static void make_named(const char *folder, const char *name) {
    char path[MAKE_PATH_MAX];
    make_path(path, folder, name);
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    make_file(folder, name, name, strlen(name));
}

static const char *const set[] = {
    "cat/B.JPG", "cat/a.png", "cat/deep/er/x.Jpeg", "dog/1.jpg", "dog/10.jpg", "dog/2.jpg",
};

static void make_set(char folder[MAKE_PATH_MAX]) {
    static const char *const others[] = {"cat/notes.txt", "cat/.hidden.jpg", "top.jpg",
                                         "dog/noending",  ".git/x.jpg",      "empty/readme.md"};
    make_folder(folder);
    for (size_t i = COUNT(set); i > 0; i--)
        make_named(folder, set[i - 1]);
    for (size_t i = 0; i < COUNT(others); i++)
        make_named(folder, others[i]);
}

Test(format_folder, classes_are_sorted_folders) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], text[64];
    opened f, g;
    make_set(folder);
    expect_open(folder, NULL, &f);
    cr_assert_eq(f.desc.n_samples, 6);
    cr_assert_eq(f.desc.n_classes, 3);
    cr_assert_str_eq(f.desc.class_names[0], "cat");
    cr_assert_str_eq(f.desc.class_names[1], "dog");
    cr_assert_str_eq(f.desc.class_names[2], "empty");
    cr_assert_str_eq(iter_desc_text(&f.desc.fields[0].desc, text, sizeof(text)),
                     "u8 [any, any, 3] \"HWC\"");
    cr_assert_str_eq(iter_desc_text(&f.desc.fields[1].desc, text, sizeof(text)), "i32 []");
    cr_assert_eq(f.desc.fields[1].limit, 3);
    cr_assert_eq(f.desc.max_extent_bytes[0], strlen("cat/deep/er/x.Jpeg"));
    for (uint64_t i = 0; i < 6; i++) {
        expect_file(&f, i, folder, set[i]);
        cr_assert_eq(label_of(&f, i), i < 3 ? 0 : 1);
    }
    expect_open(make_path(path, folder, ""), /* the same set */
                NULL, &g);
    cr_assert_eq(f.desc.identity, g.desc.identity);
    format_close(&g);
    format_close(&f);

    expect_open(folder, "labels=no&ext=jpg", &f);
    cr_assert_eq(f.desc.n_fields, 1);
    cr_assert_eq(f.desc.n_samples, 5);
    cr_assert_eq(f.desc.n_classes, 0);
    expect_file(&f, 0, folder, "top.jpg");
    format_close(&f);
    cr_assert_eq(iter__alloc_live(), 0);
    make_folder_gone(folder);
}

/* Torchvision's ImageFolder order: the files of a folder come before those of its subfolders. */
Test(format_folder, folders_within_classes_come_behind_their_files) {
    static const char *const names[] = {"a/b.jpg",     "a/x.JPG",     "a/a/z.jpg",
                                        "a/a-b/q.jpg", "a/a/b/c.png", "b/1.jpg"};
    char folder[MAKE_PATH_MAX];
    opened f;
    make_folder(folder);
    for (size_t i = 0; i < COUNT(names); i++)
        make_named(folder, names[i]);
    expect_open(folder, NULL, &f);
    cr_assert_eq(f.desc.n_samples, COUNT(names));
    for (uint64_t i = 0; i < COUNT(names); i++)
        expect_file(&f, i, folder, names[i]);
    format_close(&f);
    make_folder_gone(folder);
}

Test(format_folder, links_are_followed_but_not_in_circles) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], to[MAKE_PATH_MAX];
    opened f;
    make_set(folder);
    cr_assert_eq(symlink(make_path(to, folder, "dog"), make_path(path, folder, "wolf")), 0);
    cr_assert_eq(symlink("1.jpg", make_path(path, folder, "dog/link.jpg")), 0);
    expect_open(folder, NULL, &f);
    cr_assert_eq(f.desc.n_samples, 3 + 4 + 4);
    cr_assert_eq(f.desc.n_classes, 4);
    format_close(&f);
    cr_assert_eq(symlink("..", make_path(path, folder, "dog/up")), 0);
    expect_fails(folder, NULL, ITER_EIO, "dog/up", "more than 32 folders deep");
    make_folder_gone(folder);
}

/* A broken link and a circular one have the places and classes that their files would have. */
Test(format_folder, a_missing_file_is_a_sample) {
    static const char *const lost[] = {"cat/0.jpg", "dog/11.jpg", "dog/a.jpg", "dog/b.png"};
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    opened f, g;
    make_set(folder);
    for (size_t i = 0; i < COUNT(lost); i++)
        make_named(folder, lost[i]);
    expect_open(folder, NULL, &f);
    for (size_t i = 0; i < COUNT(lost); i++) {
        const char *name = strchr(lost[i], '/') + 1;
        cr_assert_eq(unlink(make_path(path, folder, lost[i])), 0);
        cr_assert_eq(symlink(i % 2 ? name : "nowhere", path), 0);
    }
    expect_open(folder, NULL, &g);
    cr_assert_eq(g.desc.n_samples, COUNT(set) + COUNT(lost));
    cr_assert_eq(g.desc.n_samples, f.desc.n_samples);
    cr_assert_eq(g.desc.n_classes, f.desc.n_classes);
    cr_assert_eq(g.desc.max_extent_bytes[0], strlen("cat/deep/er/x.Jpeg"));
    for (uint64_t i = 0; i < g.desc.n_samples; i++) {
        cr_assert_str_eq(g.desc.files[i].path, f.desc.files[i].path);
        cr_assert_eq(label_of(&g, i), label_of(&f, i));
        cr_assert_gt(g.desc.files[i].bytes, 0); /* with 0 bytes it would not be read at all */
    }
    format_close(&g);
    format_close(&f);
    make_folder_gone(folder);
}

Test(format_folder, where_all_files_are_missing_nothing_is_opened) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    make_folder(folder);
    make_subfolder(folder, "dog");
    cr_assert_eq(symlink("nowhere", make_path(path, folder, "dog/2.jpg")), 0);
    cr_assert_eq(symlink("1.jpg", make_path(path, folder, "dog/1.jpg")), 0);
    expect_fails(folder, NULL, ITER_EIO, folder, ": none of its 2 files can be found: ");
    expect_fails(folder, NULL, ITER_EIO, "dog/1.jpg: ", "Too many levels of symbolic links");
    expect_fails(folder, "labels=no", ITER_EIO, folder, "none of its 2 files");
    make_folder_gone(folder);
}

Test(format_folder, folders_without_images) {
    char folder[MAKE_PATH_MAX];
    make_folder(folder);
    expect_fails(folder, NULL, ITER_EFORMAT, folder, "holds no folders, which are the classes");
    make_named(folder, "a/x.gif");
    expect_fails(folder, NULL, ITER_EFORMAT, folder, "no file that ends with jpg;jpeg;png");
    make_named(folder, "x.jpg");
    expect_fails(folder, NULL, ITER_EFORMAT, folder, "holds no image");
    char path[MAKE_PATH_MAX];
    expect_fails(make_path(path, folder, "x.jpg"), NULL, ITER_EINVAL, path, "neither a folder nor");
    expect_fails(make_path(path, folder, "none"), NULL, ITER_EIO, path, "No such file");
    make_folder_gone(folder);
}

/* ---- lists ----------------------------------------------------------------------------------- */

typedef struct list_case {
    const char *file, *text, *options;
    const char *desc; /* of the label, NULL = none */
    double labels[4]; /* of the first samples */
    unsigned n_samples;
} list_case;

static const list_case lists[] = {
    {"x.lst", "0\t1.000000\tcat/B.JPG\n1\t0.5\tdog/1.jpg\n", NULL, "f32 []", {1, 0.5}, 2},
    {"x.lst", "7\t1\tcat/B.JPG\r\n5\t-2\tdog/1.jpg", NULL, "i32 []", {1, -2}, 2},
    {"x.lst", "7\t1\t2\tcat/B.JPG\n5\t-2\t2.5\tdog/1.jpg\n", NULL, "f32 [2]", {1, 2, -2, 2.5}, 2},
    {"x.lst", "7\tcat/B.JPG\n8\tdog/1.jpg\n", NULL, NULL, {0}, 2},
    {"x.txt", "cat/B.JPG 5\n\n  dog/1.jpg\t 3 \n", NULL, "i32 []", {5, 3}, 2},
    {"x.txt", "cat/B.JPG\ndog/1.jpg\n", NULL, NULL, {0}, 2},
    {"x.TXT", "cat/B.JPG 1 2 3\ndog/1.jpg 4 5 6\n", NULL, "i32 [3]", {1, 2, 3, 4}, 2},
    {"x.txt", "with blank 7.jpg 4\n", NULL, "i32 []", {4}, 1},
    {"x.txt", "with blank 7 8\n", "label-width=1", "i32 []", {8}, 1},
    {"x.csv", "image,label\ncat/B.JPG,1\ndog/1.jpg,0\n", NULL, "i32 []", {1, 0}, 2},
    {"x.csv", "cat/B.JPG,1\ndog/1.jpg,0\n", NULL, "i32 []", {1, 0}, 2},
    {"x.csv",
     "\xef\xbb\xbf"
     "kind,file\r\ndog,dog/1.jpg\r\ncat,\"cat/B.JPG\"\r\ndog,dog/2.jpg",
     NULL,
     "i32 []",
     {1, 0, 1},
     3},
    {"x.csv", "a,\"b \"\"c\"\"\",file\n1,2,dog/1.jpg\n", "label-columns=b \"c\"", "i32 []", {2}, 1},
    {"x.csv", "a,b,file\n1,2,dog/1.jpg\n", "label-columns=2;a", "i32 [2]", {2, 1}, 1},
    {"x.csv", "a,b,file\n1,2.5,dog/1.jpg\n", NULL, "f32 [2]", {1, 2.5}, 1},
    {"x.csv", "id,what\nwith blank 7,9\n", "path-column=id", "i32 []", {9}, 1},
    {"x.csv", "id,what\nwith blank 7,9\n", "path-column=1", "i32 []", {9}, 1},
    {"x.csv", "with blank 7,8\nwith blank 7,9\n", "path-column=1", "i32 []", {8, 9}, 2},
    {"x.csv", "dog,what\nwith blank 7,9\n", "path-column=1", "i32 []", {9}, 1}, /* a folder, too */
    {"x.csv", "file,note\ndog/1.jpg,\"two\nlines, and a comma\"\n", NULL, "i32 []", {0}, 1},
    {"x.csv", "16777217,dog/1.jpg\n", NULL, "i32 []", {16777217}, 1},
    {"x.csv", "2147483648,dog/1.jpg\n", NULL, "f32 []", {2147483648.0}, 1},
    {"x.txt", "dog/none.jpg 2\ncat/B.JPG 1\n", NULL, "i32 []", {2, 1}, 2}, /* missing */
    {"x.csv", "none.jpg,b\ndog/1.jpg,a\nB.JPG/x.jpg,b\n", NULL, "i32 []", {1, 0, 1}, 3},
};

Test(format_folder, lists_of_all_kinds) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], text[64];
    make_set(folder);
    make_named(folder, "with blank 7.jpg");
    make_named(folder, "with blank 7");
    for (size_t i = 0; i < COUNT(lists); i++) {
        const list_case *c = &lists[i];
        opened f;
        make_file(folder, c->file, c->text, strlen(c->text));
        expect_open(make_path(path, folder, c->file), c->options, &f);
        cr_assert_eq(f.desc.n_samples, c->n_samples, "%s", c->text);
        cr_assert_eq(f.desc.n_fields, c->desc ? 2 : 1, "%s", c->text);
        unlink(path);
        if (!c->desc) {
            format_close(&f);
            continue;
        }
        const iter_desc *desc = &f.desc.fields[1].desc;
        cr_assert_str_eq(iter_desc_text(desc, text, sizeof(text)), c->desc, "%s", c->text);
        const int64_t width = iter_desc_elements(desc);
        for (int64_t k = 0; k < (int64_t)c->n_samples * width && k < 4; k++) {
            union {
                float f32[4];
                int32_t i32[4];
            } row;
            f.ops->index_row(f.state, (uint64_t)(k / width), 1, &row);
            const double got =
                desc->dtype == ITER_F32 ? (double)row.f32[k % width] : row.i32[k % width];
            cr_assert_eq(got, c->labels[k], "%s: %g", c->text, got);
        }
        format_close(&f);
    }
    cr_assert_eq(iter__alloc_live(), 0);
    make_folder_gone(folder);
}

static void make_text(const char *folder, const char *text) {
    make_file(folder, "x.csv", text, strlen(text));
}

/* Labels are numbers, or all are names: one cell must not change the meaning of the others. */
Test(format_folder, labels_that_are_not_alike_are_refused) {
    static const struct {
        const char *file, *text, *options, *reason;
    } bad[] = {
        {"x.csv", "file,label\ndog/1.jpg,\ndog/2.jpg,2\n", NULL,
         "x.csv: line 2, column 2: label '' is empty"},
        {"x.csv", "label,file\n ,dog/1.jpg\n2,dog/2.jpg\n", NULL,
         "line 2, column 1: label '' is empty"},
        {"x.csv", "file,label\ndog/1.jpg,2\ndog/2.jpg,\n", NULL,
         "line 3, column 2: label '' is empty"},
        {"x.csv", "file,label\ndog/1.jpg,cat\ndog/2.jpg,\n", NULL,
         "line 3, column 2: label '' is empty"},
        {"x.csv", "file,score\ndog/1.jpg,nan\ndog/2.jpg,0.25\n", NULL,
         "line 2, column 2: label 'nan' is not a number that can be read; label-names=yes takes"},
        {"x.csv", "file,score\ndog/1.jpg,-Infinity\n", NULL,
         "'-Infinity' is not a number that can"},
        {"x.csv", "file,score\ndog/1.jpg,1e400\ndog/2.jpg,0.25\n", NULL,
         "line 2, column 2: label '1e400' is not a number that can be read"},
        {"x.csv", "file,score\ndog/1.jpg,1_000\ndog/2.jpg,25\n", NULL,
         "'1_000' is not a number that"},
        {"x.csv", "file,score\ndog/1.jpg,\"1,000\"\n", NULL, "label '1,000' is not a number that"},
        {"x.csv", "file,score\ndog/1.jpg,0x10\n", NULL, "label '0x10' is not a number that"},
        {"x.csv", "file,score\ndog/1.jpg,0.5\ndog/2.jpg,nan\n", NULL,
         "line 3, column 2: label 'nan' is not a number, the first one is"},
        {"x.csv", "file,score\ndog/1.jpg,1e39\n", NULL, "'1e39' is beyond a float of 32 bits"},
        {"x.csv", "file,label\ndog/1.jpg,cat\ndog/2.jpg,7\n", NULL,
         "line 3, column 2: label '7' is a number, the first one, 'cat', is none"},
        {"x.csv", "file,label\ndog/1.jpg,cat\ndog/2.jpg,nan\n", NULL,
         "label 'nan' is a number, the first one, 'cat', is none; label-names=yes"},
        {"x.csv", "file,a,b\ndog/1.jpg,1,2\n", "label-names=yes", "is for one label a line"},
        {"x.lst", "0\tnan\tdog/1.jpg\n1\t0.5\tdog/2.jpg\n", NULL,
         "x.lst: line 1, column 2: label 'nan' is not a number that can be read"},
        {"x.lst", "0\t\tdog/1.jpg\n1\t0.5\tdog/2.jpg\n", NULL, "line 1, column 2: label '' is"},
        {"x.lst", "0\t1\t2\tdog/1.jpg\n1\t3\tcat\tdog/2.jpg\n", NULL,
         "line 2, column 3: label 'cat' is not a number"},
    };
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    opened f;
    make_set(folder);
    for (size_t i = 0; i < COUNT(bad); i++) {
        make_file(folder, bad[i].file, bad[i].text, strlen(bad[i].text));
        expect_fails(make_path(path, folder, bad[i].file), bad[i].options,
                     strstr(bad[i].reason, "one label") ? ITER_EINVAL : ITER_EFORMAT, bad[i].file,
                     bad[i].reason);
    }
    /* If names are requested, all of these are names, without the blanks around them. */
    make_text(folder, "dog/1.jpg,nan\ndog/2.jpg, 7 \ndog/10.jpg,1_000\n");
    expect_open(make_path(path, folder, "x.csv"), "label-names=yes", &f);
    cr_assert_eq(f.desc.n_classes, 3);
    cr_assert_str_eq(f.desc.class_names[0], "1_000");
    cr_assert_str_eq(f.desc.class_names[1], "7");
    cr_assert_eq(label_of(&f, 0), 2);
    cr_assert_eq(label_of(&f, 1), 1);
    format_close(&f);
    make_text(folder, "dog/1.jpg,2cv\ndog/2.jpg,1-b\n"); /* not numbers */
    expect_open(path, NULL, &f);
    cr_assert_str_eq(f.desc.class_names[0], "1-b");
    format_close(&f);
    make_text(folder, "dog/1.jpg,\" 2 \"\ndog/2.jpg, 10\n"); /* blanks do not count */
    expect_open(path, NULL, &f);
    cr_assert_eq(f.desc.n_classes, 0);
    cr_assert_eq(label_of(&f, 0), 2);
    cr_assert_eq(label_of(&f, 1), 10);
    format_close(&f);
    cr_assert_eq(iter__alloc_live(), 0);
    make_folder_gone(folder);
}

/* A folder, a FIFO and a device have the places that files would have. Reading them must fail, and
 * not wait. */
Test(format_folder, what_is_no_file_is_a_sample_that_cannot_be_read) {
    static const char list[] = "0\t1\tdog/1.jpg\n1\t2\tcat\n2\t3\tpipe\n3\t4\t/dev/zero\n";
    static const char *const reasons[] = {"", "cat/:0): Is a directory",
                                          "pipe/:0): Not a directory",
                                          "/dev/zero/:0): Not a directory"};
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX], spec[MAKE_PATH_MAX + 32];
    iter_error err = {0};
    iter_dataset *dataset;
    iter_sample *sample;
    make_set(folder);
    make_file(folder, "x.lst", list, sizeof(list) - 1);
    cr_assert_eq(mkfifo(make_path(path, folder, "pipe"), 0600), 0);
    cr_assert_eq(mkfifo(make_path(path, folder, "dog/99.jpg"), 0600), 0);
    snprintf(spec, sizeof(spec), "folder:%s/x.lst", folder);
    cr_assert_eq(iter_dataset_open(spec, NULL, &dataset, &err), ITER_OK, "%s", err.message);
    cr_assert_eq(iter_dataset_describe(dataset)->n_samples, 4);
    for (uint64_t i = 1; i < 4; i++) {
        cr_assert_eq(iter_dataset_read(dataset, i, "data", &sample, &err), ITER_EIO);
        cr_assert(strstr(err.message, reasons[i]), "%s", err.message);
        cr_assert_eq(iter_dataset_read(dataset, i, "label", &sample, &err), ITER_OK);
        cr_assert_eq(*(const int32_t *)iter_sample_tensor(sample, 0)->data, (int32_t)i + 1);
        iter_sample_free(sample);
    }
    iter_chain *chain;
    cr_assert_eq(iter_chain_parse("resize:2", NULL, &chain, &err), ITER_OK);
    /* no loader may wait either, with any source */
    for (int workers = 0; workers < 3; workers += 2) {
        for (int source = ITER_SOURCE_AUTO; source <= ITER_SOURCE_PREAD; source++) {
            iter_loader_options opt = ITER_LOADER_OPTIONS_INIT;
            iter_loader *loader;
            iter_batch *batch;
            opt.batch_size = 4;
            opt.workers = workers;
            opt.reading.source = source;
            opt.faults.on_error = ITER_ON_ERROR_BLANK;
            opt.faults.timeout_ms = 20000;
            if (iter_dataloader_create(dataset, chain, &opt, &loader, &err) < 0) continue;
            cr_assert_eq(iter_loader_next(loader, &batch, &err), ITER_OK, "%s", err.message);
            iter_batch_unref(batch);
            iter_loader_unref(loader);
        }
    }
    iter_chain_unref(chain);
    iter_dataset_unref(dataset);
    opened f;
    expect_open(folder, NULL, &f); /* the same among the images of a class */
    cr_assert_eq(f.desc.n_samples, COUNT(set) + 1);
    format_close(&f);
    make_folder_gone(folder);
}

Test(format_folder, classes_of_a_list_are_sorted_names) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    char text[65536] = "";
    size_t n = 0;
    opened f;
    make_set(folder);
    for (int i = 0; i < 1000; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "dog/1.jpg,c%d\n", 999 - i % 500);
    make_file(folder, "x.csv", text, n);
    expect_open(make_path(path, folder, "x.csv"), NULL, &f);
    cr_assert_eq(f.desc.n_classes, 500);
    cr_assert_eq(f.desc.fields[1].limit, 500);
    for (uint64_t i = 0; i < 1000; i++) { /* c500 .. c999, all of one length */
        cr_assert_eq(label_of(&f, i), (int32_t)(499 - i % 500));
    }
    cr_assert_str_eq(f.desc.class_names[7], "c507");
    format_close(&f);
    expect_open(path, "labels=no", &f);
    cr_assert_eq(f.desc.n_fields, 1);
    format_close(&f);
    make_folder_gone(folder);
}

Test(format_folder, root_of_a_list) {
    char folder[MAKE_PATH_MAX], other[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    char options[MAKE_PATH_MAX + 8], text[MAKE_PATH_MAX + 32];
    opened f;
    make_set(folder);
    make_folder(other);
    make_file(other, "x.txt", "dog/1.jpg 1\n", 12);
    make_path(path, other, "x.txt");
    expect_fails(path, NULL, ITER_EIO, "x.txt: none of its 1 files can be found: ",
                 "dog/1.jpg: No such file or directory; names are relative to the list's folder, "
                 "or to root=");
    expect_fails(path, "root=/nowhere", ITER_EIO, "/nowhere/dog/1.jpg: No such file",
                 "; names are relative to root=/nowhere");
    snprintf(options, sizeof(options), "root=%s", folder);
    expect_open(path, options, &f);
    expect_file(&f, 0, folder, "dog/1.jpg");
    format_close(&f);
    const int n = snprintf(text, sizeof(text), "%s/dog/1.jpg 1\n", folder);
    make_file(other, "x.txt", text, (size_t)n);
    expect_open(path, NULL, &f);
    expect_file(&f, 0, folder, "dog/1.jpg");
    format_close(&f);
    make_folder_gone(other);
    make_folder_gone(folder);
}

Test(format_folder, bad_lists_say_file_line_and_reason) {
    static const struct {
        const char *file, *text, *options, *reason;
        iter_status status;
    } bad[] = {
        {"x.lst", "", NULL, "names no file", ITER_EFORMAT},
        {"x.lst", "\n\n", NULL, "names no file", ITER_EFORMAT},
        {"x.lst", "cat/B.JPG\n", NULL, "line 1: should be ID TAB LABEL TAB FILE", ITER_EFORMAT},
        {"x.lst", "0\t1\tcat/B.JPG\n1\t1\t2\tdog/1.jpg\n", NULL,
         "line 2: has 4 columns, the first line has 3", ITER_EFORMAT},
        {"x.lst", "0\t1\tcat/B.JPG\n1\tx\tdog/1.jpg\n", NULL,
         "line 2, column 2: label 'x' is not a number, the first one is", ITER_EFORMAT},
        {"x.lst", "0\t1\tcat/B.JPG\n", "label-width=2", "line 1: has 1 labels; label-width is 2",
         ITER_EFORMAT},
        {"x.lst", "0\t1\tcat\n", NULL, "none of its 1 files can be found", ITER_EIO},
        {"x.txt", "cat/B.JPG 1\n\ndog/1.jpg\n", NULL, "line 3: has 1 columns, 2 are needed",
         ITER_EFORMAT},
        {"x.csv", "a,b\nc,d\n", NULL, "line 2: no cell ends like a file's name", ITER_EFORMAT},
        {"x.csv", "file,a,b\ndog/1.jpg,1,x\n", NULL,
         "label-columns= names those wanted; no number is 'x'", ITER_EFORMAT},
        {"x.csv", "file,a\ndog/1.jpg,\"1\n", NULL, "line 2: a quote is not closed", ITER_EFORMAT},
        {"x.csv", "file,a\ndog/1.jpg,\"1\"2\n", NULL, "line 2: a quote is not closed",
         ITER_EFORMAT},
        {"x.csv", "file,a\ndog/1.jpg,1\ndog/2.jpg\n", NULL, "line 3: has too few columns",
         ITER_EFORMAT},
        {"x.csv", "file,a\ndog/1.jpg,1\n", "label-columns=b", "has no column 'b'", ITER_EINVAL},
        {"x.csv", "file,a\ndog/1.jpg,1\n", "path-column=3", "has no column '3'", ITER_EINVAL},
    };
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    make_set(folder);
    for (size_t i = 0; i < COUNT(bad); i++) {
        make_file(folder, bad[i].file, bad[i].text, strlen(bad[i].text));
        expect_fails(make_path(path, folder, bad[i].file), bad[i].options, bad[i].status, path,
                     bad[i].reason);
        unlink(path);
    }
    make_file(folder, "x.txt", "a\0b", 3);
    expect_fails(make_path(path, folder, "x.txt"), NULL, ITER_EFORMAT, path, "is not text");
    make_folder_gone(folder);
}

Test(format_folder, every_allocation_failure_is_clean) {
    char folder[MAKE_PATH_MAX], path[MAKE_PATH_MAX];
    make_set(folder);
    make_file(folder, "x.csv", "dog/1.jpg,b\ndog/2.jpg,a\n", 24);
    for (int way = 0; way < 2; way++) {
        for (long n = 0;; n++) {
            opened f;
            iter_error err = {0};
            iter__alloc_fail_after = n;
            const iter_status s =
                format_open(&iter__format_folder, way ? make_path(path, folder, "x.csv") : folder,
                            NULL, &f, &err);
            iter__alloc_fail_after = -1;
            format_close(&f);
            cr_assert_eq(iter__alloc_live(), 0, "leak when allocation %ld fails", n);
            if (s == ITER_OK) {
                cr_assert_geq(n, 7);
                break;
            }
            cr_assert_eq(s, ITER_ENOMEM, "%s", err.message);
        }
    }
    make_folder_gone(folder);
}
