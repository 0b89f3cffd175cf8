/* test_remote_checksum.c - which of a server's checksums count, and whether they are those of the
 * bytes. The sums of "123456789" and "" are published: RFC 3720 and the catalogue of CRCs; the
 * digests are those of `openssl dgst`. */
#include <criterion/criterion.h>
#include <string.h>

#include "iter/core/crc32c.h"
#include "iter/remote/checksum.h"

#define BYTES "123456789"

/* crc32c e3069283, crc32 cbf43926, in base64 */
#define CRC32C "4waSgw=="
#define CRC32  "y/Q5Jg=="
#define SHA1   "98O8HYCOBHMq32eZZczDTKeuNEE="
#define SHA256 "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="
#define MD5    "JfnnlDI7RTiF9RgfG2JNCw=="

/* 1 = the bytes have the sum, 0 = they do not, -1 = nothing is compared. */
static int judge(const char *const *lines, bool is_whole, const char *etag, const char *bytes) {
    iter__checksum sum = {.crc = 0};
    for (; *lines; lines++)
        iter__checksum_header(&sum, *lines, strlen(*lines));
    iter__checksum_begin(&sum, is_whole, etag);
    const bool compared = sum.wanted.kind != ITER_CHECKSUM_NONE;
    for (const char *at = bytes; *at; at++)
        iter__checksum_add(&sum, at, 1);
    const bool wrong = iter__checksum_is_wrong(&sum);
    return wrong ? 0 : compared ? 1 : -1;
}

#define PARTS      "\"0123456789abcdef0123456789abcdef-2\""
#define LINES(...) ((const char *const[]){__VA_ARGS__, NULL})

Test(remote_checksum, each_kind) {
    static const char *const lines[] = {
        "x-amz-checksum-crc32c: " CRC32C "\r\n",
        "X-Amz-Checksum-Crc32:" CRC32,
        "x-amz-checksum-sha1: " SHA1 "\r\n",
        "x-amz-checksum-sha256: " SHA256 " \r\n",
        "x-goog-hash: crc32c=" CRC32C ",md5=" MD5 "\r\n",
        "x-goog-hash: md5=" MD5 "\r\n",
        "Content-MD5: " MD5 "\r\n",
        "Digest: SHA-256=" SHA256 "\r\n",
        "Repr-Digest: unknown=:AAAA:, sha-256=:" SHA256 ":\r\n",
        "Content-Digest: sha-256=:" SHA256 ":\r\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        cr_expect_eq(judge(LINES(lines[i]), true, "", BYTES), 1, "%s", lines[i]);
        cr_expect_eq(judge(LINES(lines[i]), true, "", "123456780"), 0, "%s", lines[i]);
        cr_expect_eq(judge(LINES(lines[i]), true, "", ""), 0, "%s", lines[i]);
        const int part = i == 9 ? 0 : -1; /* Content-Digest is of the bytes that come */
        cr_expect_eq(judge(LINES(lines[i]), false, "", "1234"), part, "%s", lines[i]);
    }
}

/* A cheap sum is taken before a dear one, wherever it stands. */
Test(remote_checksum, one_of_several) {
    cr_expect_eq(judge(LINES("x-amz-checksum-sha256: " SHA1, "x-amz-checksum-crc32c: " CRC32C),
                       true, "", BYTES),
                 1);
    cr_expect_eq(
        judge(LINES("x-goog-hash: crc32c=AAAAAA==", "x-goog-hash: md5=" MD5), true, "", BYTES), 0);
    cr_expect_eq(
        judge(LINES("x-goog-hash: md5=" MD5, "x-goog-hash: crc32c=AAAAAA=="), true, "", BYTES), 0);
}

/* What is of something else than these bytes must not make them wrong. */
Test(remote_checksum, not_of_these_bytes) {
    const char *wrong = "x-amz-checksum-crc32: AAAAAA==";
    cr_expect_eq(judge(LINES(wrong), true, "\"0123\"", BYTES), 0);
    cr_expect_eq(judge(LINES("x-amz-checksum-crc32: AAAAAA==-3"), true, "", BYTES), -1);
    cr_expect_eq(judge(LINES(wrong, "x-amz-checksum-type: COMPOSITE"), true, "", BYTES), -1);
    cr_expect_eq(judge(LINES(wrong), true, PARTS, BYTES), -1, "an upload in parts");
    cr_expect_eq(judge(LINES(wrong, "x-amz-checksum-type: FULL_OBJECT"), true, PARTS, BYTES), 0);
    cr_expect_eq(judge(LINES(wrong), true, "\"f7c-12\"", BYTES), 0, "another server's");
    cr_expect_eq(
        judge(LINES("x-goog-hash: crc32c=AAAAAA==", "x-goog-stored-content-encoding: gzip"), true,
              "", BYTES),
        -1);
    cr_expect_eq(
        judge(LINES("x-goog-hash: crc32c=AAAAAA==", "x-goog-stored-content-encoding: identity"),
              true, "", BYTES),
        0);
}

Test(remote_checksum, heads_that_are_none) {
    static const char *const lines[] = {
        "",
        ":",
        "x-amz-checksum-crc32",
        "x-amz-checksum-crc32:",
        "x-goog-hash: crc32c",
        "x-goog-hash: crc32c=,,=",
        "x-amz-checksum-crc32: AAAA",
        "x-goog-hash: crc32c=A=AAAA==",
        "content-md5: ????????????????????????",
        "content-digest: sha-256=:",
        "x-amz-checksum-: AAAA",
        ("x-amz-checksum-sha1: " SHA256),
        "x-amz-checksum-crc64nvme: AAAAAAAAAAA=",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        cr_expect_eq(judge(LINES(lines[i]), true, "", BYTES), -1, "%s", lines[i]);
}

Test(remote_checksum, crc32c_goes_on) {
    for (size_t n = 0; n <= 9; n++) {
        const uint32_t before = iter__crc32c(BYTES, n);
        cr_expect_eq(iter__crc32c_more(before, &BYTES[n], 9 - n), 0xe3069283u, "%zu", n);
    }
}
