/* test_remote_hash.c - SHA-256 against FIPS 180-4's examples, HMAC against RFC 4231's, and both
 * against OpenSSL's own in every length around a block. */
#include <criterion/criterion.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "iter/remote/digest.h"
#include "iter/remote/sigv4.h"

TestSuite(remote_hash);

static const char *hex(const uint8_t hash[ITER_SHA256_BYTES]) {
    static char text[2 * ITER_SHA256_BYTES + 1];
    for (int i = 0; i < ITER_SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
    return text;
}

static const char *hash_of(const char *text) {
    static uint8_t hash[ITER_SHA256_BYTES];
    iter__sha256(text, strlen(text), hash);
    return hex(hash);
}

Test(remote_hash, published) {
    cr_expect_str_eq(hash_of(""), ITER_SHA256_EMPTY);
    cr_expect_str_eq(hash_of("abc"),
                     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    cr_expect_str_eq(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
                     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

Test(remote_hash, published_keyed) {
    uint8_t key[131], out[ITER_SHA256_BYTES];
    const char *what = "what do ya want for nothing?";
    iter__hmac_sha256("Jefe", 4, what, strlen(what), out);
    cr_expect_str_eq(hex(out), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0x0b, 20);
    iter__hmac_sha256(key, 20, "Hi There", 8, out);
    cr_expect_str_eq(hex(out), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    const char *large = "Test Using Larger Than Block-Size Key - Hash Key First";
    memset(key, 0xaa, sizeof(key));
    iter__hmac_sha256(key, sizeof(key), large, strlen(large), out);
    cr_expect_str_eq(hex(out), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

Test(remote_hash, every_length) {
    uint8_t bytes[200], out[ITER_SHA256_BYTES], wanted[ITER_SHA256_BYTES];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 151 + 7);
    for (size_t n = 0; n < sizeof(bytes); n++) {
        iter__sha256(bytes, n, out);
        cr_assert_eq(EVP_Digest(bytes, n, wanted, NULL, EVP_sha256(), NULL), 1);
        cr_expect_arr_eq(out, wanted, sizeof(out), "%zu bytes", n);
        iter__hmac_sha256(bytes, n, bytes, sizeof(bytes) - n, out);
        cr_assert_not_null(
            HMAC(EVP_sha256(), bytes, (int)n, bytes, sizeof(bytes) - n, wanted, NULL));
        cr_expect_arr_eq(out, wanted, sizeof(out), "a key of %zu bytes", n);
    }
}
