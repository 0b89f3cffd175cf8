/*
 * iterpack.c - packs images into MXNet's .rec files, and inspects such files: main(), options,
 * output.
 */
#include "tools/iterpack/iterpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <iter/version.h>

#include "tools/iterpack/pack_remote.h"

/* clang-format off */ /* a line of the help is a line here */
static const char help[] =
    "iterpack: images to MXNet's .rec files\n"
    "\n"
    "  iterpack list DIR [OUT.lst]    a list of the images under DIR, a class per folder\n"
    "      --shuffle SEED             in an order drawn from the seed (default: sorted)\n"
    "      --ext a;b                  endings (default jpg;jpeg;png;webp)\n"
    "      --no-labels                label 0 for all images, in any folder\n"
    "  iterpack pack LIST OUT.rec     the files of a list, as they are, with an index\n"
    "      --root DIR                 folder of the names in the list (default: the list's "
    "folder)\n"
    "      --threads N                threads that read files, or convert images (default: 32 if "
    "--root, or\n"
    "                                 the list's folder without it, is a URL; else 4, or one per\n"
    "                                 processor if they convert); the result is the same for any N\n"
    "      --shards N                 N files, OUT-00000.rec ..., each an equal part of the list\n"
    "      --skip                     leave out files that cannot be read, and report how many; "
    "may be\n"
    "                                 added when an interrupted run is resumed\n"
    "      --restart                  discard the parts of an interrupted run; at s3://, replace "
    "what is\n"
    "                                 there\n"
    "      --sync SECONDS             sync the packed records this often (default 10), or every 64 "
    "MiB\n"
    "      --part-size MIB            of an upload to s3:// in parts, the first ones (default 8)\n"
    "      --resize N                 images whose short side is N, bilinear with antialias\n"
    "      --center-crop              the square in the middle, before the resize\n"
    "      --gray                     one channel\n"
    "      --quality N                JPEG of this quality, 1 to 100 (default 95)\n"
    "      --encoding jpg|png|raw     format of the packed images (default jpg); raw = bare "
    "pixels, HWC\n"
    "      --seekable                 JPEGs with restart markers: crops decode faster, pixels stay\n"
    "      --progressive              with it, progressive ones, too, made sequential\n"
    "      --scales 4|8|4,8           with it, a second copy of the coefficients that decoding at "
    "a 4th or\n"
    "                                 8th of the size needs: jpeg-scale=auto or fast is faster\n"
    "  iterpack verify FILE.rec ...   check every record's frame, and the index; status 1 = a "
    "fault\n"
    "      --decode                   and that every content is an image that decodes without "
    "warning\n"
    "      --list LIST --root DIR     and that labels and bytes are those of the list's files\n"
    "      --resize ...               with --list: convert the files as `pack` did before "
    "comparing\n"
    "      --skip                     files that cannot be read may be missing\n"
    "  iterpack info FILE.rec ...     records, sizes, kinds of content, labels\n"
    "\n"
    "options of each command:\n"
    "  --anonymous                    read s3:// without keys and a signature; cannot write there\n"
    "\n"
    "A list has a line per image: id TAB label [TAB label ...] TAB path. The same command resumes "
    "an\n"
    "interrupted run, from its last sync. Two runs cannot write one output at the same time: the "
    "second\n"
    "one fails, and names the first.\n"
    "\n"
    "Names of files and folders may be URLs: s3:// to read and to write, http:// and https:// to "
    "read.\n"
    "Keys, endpoint and region come from the environment, as AWS's programs take them. An upload "
    "is\n"
    "visible when it is complete; an interrupted one starts anew, and is not locked.\n"
    "\n"
    "Without --resize, --center-crop, --gray, --quality and --encoding, files are packed as they "
    "are:\n"
    "the result has the bytes that MXNet's im2rec writes with --pass-through. With any of these "
    "options\n"
    "images are decoded, turned upright as their EXIF says, and encoded again. MXNet reads both.\n"
    "--seekable changes only how a JPEG's coefficients are coded, and checks that; what it cannot "
    "read\n"
    "stays as it is.\n";
/* clang-format on */

#define LINE_MAX_BYTES 8192

/* Prints `begin`, then the text, escaped, as one line. */
static void say(FILE *out, const char *begin, const char *format, va_list args, int os_error) {
    char text[LINE_MAX_BYTES], line[2 * LINE_MAX_BYTES], reason[128] = "";
    (void)vsnprintf(text, sizeof(text), format, args);
    if (os_error) (void)snprintf(reason, sizeof(reason), ": %s", strerror(os_error));
    fprintf(out, "%s%s%s\n", begin, iter_text_escape(text, line, sizeof(line)), reason);
}

int pack_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(stderr, "iterpack: ", format, args, 0);
    va_end(args);
    return PACK_FAILED;
}

int pack_fail_os(const char *format, ...) {
    const int os_error = errno;
    va_list args;
    va_start(args, format);
    say(stderr, "iterpack: ", format, args, os_error);
    va_end(args);
    return PACK_FAILED;
}

int pack_usage(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(stderr, "iterpack: ", format, args, 0);
    va_end(args);
    return PACK_USAGE;
}

void pack_warn(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(stderr, "iterpack: warning: ", format, args, 0);
    va_end(args);
}

void pack_line(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(stdout, "", format, args, 0);
    va_end(args);
}

void *pack_memory(void *block, size_t n, size_t size) {
    size_t bytes = 0;
    void *memory = __builtin_mul_overflow(n, size, &bytes) ? NULL : realloc(block, bytes + 1);
    if (!memory) {
        fprintf(stderr, "iterpack: no memory for %zu x %zu bytes\n", n, size);
        exit(PACK_FAILED);
    }
    return memory;
}

char *pack_text(const char *format, ...) {
    va_list args;
    char *text = NULL;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) {
        fputs("iterpack: no memory for a text\n", stderr);
        exit(PACK_FAILED);
    }
    va_end(args);
    return text;
}

char *pack_folder_of(const char *path) {
    const char *slash = memrchr(path, '/', pack_path_bytes(path));
    return slash ? pack_text("%.*s/", (int)(slash - path), path) : pack_text(".");
}

int pack_sync_folder(const char *path) {
    char *folder = pack_folder_of(path);
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool good = fd >= 0 && fsync(fd) == 0;
    const int status = good ? PACK_DONE : pack_fail_os("%s", folder);
    if (fd >= 0) close(fd);
    free(folder);
    return status;
}

/* ---- options --------------------------------------------------------------------------------- */

static int read_value(const pack_option *row, const char *value) {
    char *end = NULL;
    if (row->type == PACK_TEXT) {
        *(const char **)row->value = value;
        return PACK_DONE;
    }
    errno = 0;
    const long long number = strtoll(value, &end, 10);
    if (!*value || *end || errno || number < row->min || number > row->max) {
        return pack_usage("--%s %s: a whole number from %lld to %lld is needed", row->name, value,
                          (long long)row->min, (long long)row->max);
    }
    *(int64_t *)row->value = number;
    return PACK_DONE;
}

int pack_options(int n_args, char **args, const pack_option *rows, const char **words, int n_words,
                 int *out_n_words) {
    uint64_t given = 0; /* one bit per row */
    *out_n_words = 0;
    for (int i = 0; i < n_args; i++) {
        if (strncmp(args[i], "--", 2) != 0) {
            if (*out_n_words == n_words) return pack_usage("unexpected argument '%s'", args[i]);
            words[(*out_n_words)++] = args[i];
            continue;
        }
        const pack_option *row = rows;
        while (row->name && strcmp(row->name, args[i] + 2) != 0)
            row++;
        if (!row->name) return pack_usage("unknown option %s", args[i]);
        const uint64_t bit = UINT64_C(1) << (row - rows);
        if (given & bit) return pack_usage("%s is given twice", args[i]);
        given |= bit;
        if (row->type == PACK_FLAG) {
            *(bool *)row->value = true;
            continue;
        }
        if (++i == n_args) return pack_usage("%s needs a value", args[i - 1]);
        const int status = read_value(row, args[i]);
        if (status != PACK_DONE) return status;
    }
    return PACK_DONE;
}

static int run(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(int n_args, char **args);
    } commands[] = {{"list", pack_cmd_list},
                    {"pack", pack_cmd_pack},
                    {"verify", pack_cmd_verify},
                    {"info", pack_cmd_info}};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(help, stdout);
            return PACK_DONE;
        }
        if (strcmp(argv[i], "--version") == 0) {
            printf("iterpack %s\n", iter_version());
            return PACK_DONE;
        }
    }
    if (argc < 2) return pack_usage("a command is needed: list, pack, verify or info (--help)");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argc - 2, argv + 2);
    return pack_usage("unknown command '%s': list, pack, verify, info (--help)", argv[1]);
}

/* If the output could not be written, the program has failed. */
int main(int argc, char **argv) {
    pack_remote_open(argc, argv);
    const int status = run(argc, argv);
    pack_remote_close();
    const bool broken = ferror(stdout) != 0;
    if (fflush(stdout) != 0 || broken) {
        if (status == PACK_DONE) return pack_fail_os("standard output");
        pack_fail_os("standard output");
    }
    return status;
}
