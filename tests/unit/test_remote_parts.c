/* test_remote_parts.c - URLs, lists of objects, answers to uploads, and keys from the places where
 * programs of AWS keep them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"
#include "iter/remote/credentials.h"
#include "iter/remote/s3_xml.h"
#include "iter/remote/secrets.h"
#include "iter/remote/upload.h"
#include "iter/remote/url.h"

/* ---- URLs ------------------------------------------------------------------------------------ */

Test(remote_parts, urls) {
    size_t n;
    cr_expect(iter__url_is("s3://b/k") && iter__url_is("S3://b/k") && iter__url_is("https://h/x"));
    cr_expect(iter__url_is("http://h") && !iter__url_is("/s3://b") && !iter__url_is("s3:/b") &&
              !iter__url_is("ftp://h/x") && !iter__url_is(""));
    cr_expect_str_eq(iter__url_s3_key("s3://bucket/a/b", &n), "a/b");
    cr_expect_eq(n, 6u);
    cr_expect_str_eq(iter__url_s3_key("s3://bucket", &n), "");
    cr_expect_str_eq(iter__url_s3_key("s3://bucket/", &n), "");
    char out[8];
    cr_expect_eq(iter__url_encode("a b", 3, true, out, sizeof(out)), 5u);
    cr_expect_str_eq(out, "a%20b");
    strcpy(out, "kept");
    cr_expect_eq(iter__url_encode("   ", 3, true, out, sizeof(out)), 9u);
    cr_expect_str_eq(out, "kept");
    char text[] = "%41%zz%4%";
    iter__url_decode(text);
    cr_expect_str_eq(text, "A%zz%4%");
}

/* ---- Secrets --------------------------------------------------------------------------------- */

static void hides(iter__secrets *secrets, const char *url, const char *hidden) {
    char *name = iter__secrets_hide(secrets, url);
    cr_assert_not_null(name);
    const char *at = name; /* a '#' stands for 16 digits */
    for (const char *want = hidden; *want; want++) {
        const size_t n = *want == '#' ? strspn(at, "0123456789abcdef") : *at == *want;
        cr_assert_eq(n, *want == '#' ? 16u : 1u, "%s", name);
        at += n;
    }
    cr_expect_eq(*at, '\0', "%s", name);
    char *whole = iter__secrets_reveal(secrets, name);
    cr_expect_str_eq(whole, url);
    char *again = iter__secrets_hide(secrets, name);
    cr_expect_str_eq(again, name);
    iter__free(again);
    iter__free(whole);
    iter__free(name);
}

static void masks(const char *text, const char *want) {
    char *masked = iter__secrets_mask(text);
    cr_expect_str_eq(masked, want);
    iter__free(masked);
}

Test(remote_parts, masks_cut) {
    char out[12];
    const char *text = "a:'http://u@h/?x'";
    cr_expect_str_eq(iter_text_mask(text, out, sizeof(out)), "a:'http://*");
    cr_expect_str_eq(iter_text_mask(text, out, 1), "");
    cr_expect_eq(iter_text_mask(text, NULL, 0), NULL);
}

Test(remote_parts, masks) {
    masks("", "");
    masks("npy:a?b=c@d", "npy:a?b=c@d");
    masks("tar:https://h/a.tar?cache=/x", "tar:https://h/a.tar?cache=/x");
    masks("tar:https://u:p@h/a.tar?cache=/x", "tar:https://***@h/a.tar?cache=/x");
    masks("tar:\"https://h/{0..1}?t=1&u\"?cache=/x", "tar:\"https://h/{0..1}?***\"?cache=/x");
    masks("mix:{a='http://h?1'; b=tar:http://u@h/x?k=v; c=tar:/x@y}",
          "mix:{a='http://h?***'; b=tar:http://***@h/x?k=v; c=tar:/x@y}");
    masks("tar:\"https://h/my data/a.tar?sig=S\"?cache=/x",
          "tar:\"https://h/my data/a.tar?***\"?cache=/x");
    masks("tar:\"https://me:pa;s's@h/a.tar\"", "tar:\"https://***@h/a.tar\"");
    masks("tar:{https://h/a.tar?sig=A,https://u:p@h/b.tar?sig=B}?cache=/x",
          "tar:{https://h/a.tar?***,https://***@h/b.tar?***}?cache=/x");
    masks("tar:{/a,https://u:p@h/b,https://v:p@h/c}", "tar:{/a,https://***@h/b,https://***@h/c}");
    masks("tar:https://h/{a?s=1,b?s=2}.tar?cache=/x", "tar:https://h/{a?***}.tar?cache=/x");
    masks("tar:https://{al:x,bo:y}@h/a.tar", "tar:https://***@h/a.tar");
    masks("don't read https://u:p@h/it's?", "don't read https://***@h/it's?");
    masks(
        "mix:{a=0.7 tokens:https://h/a.idx?length=64; b=0.3 tokens:http://u@h/b.idx?length=64}",
        "mix:{a=0.7 tokens:https://h/a.idx?length=64; b=0.3 tokens:http://***@h/b.idx?length=64}");
    masks("://", "://");
    masks("'://?", "'://?***");
}

Test(remote_parts, secrets) {
    iter__secrets secrets = {0};
    const long before = iter__alloc_live();
    hides(&secrets, "https://h/a.tar", "https://h/a.tar");
    hides(&secrets, "https://me:word@h:8/a", "https://***@h:8/a");
    hides(&secrets, "https://h/a?x=1/2@3", "https://h/a?***-#");
    hides(&secrets, "HTTP://u@h?y", "HTTP://***@h?***-#");
    hides(&secrets, "https://h", "https://h");
    hides(&secrets, "s3://b/k@z?v=1", "s3://b/k@z?v=1");
    hides(&secrets, "https://a@b@h/c@d", "https://***-#@h/c@d"); /* h has another user */
    for (int i = 0; i < 100; i++) {
        char url[64];
        snprintf(url, sizeof(url), "https://h/get?id=%d", i);
        hides(&secrets, url, "https://h/get?***-#");
    }
    /* A second user of a host. */
    hides(&secrets, "https://you:word@h:8/a", "https://***-#@h:8/a");
    hides(&secrets, "https://me:word@h:8/b", "https://***@h:8/b");
    hides(&secrets, "https://you:word@h:8/b?x", "https://***-#@h:8/b?***-#");
    /* Names that come from a hidden one have its secrets, too. */
    char *name = iter__secrets_reveal(&secrets, "https://***@h:8/a/b.bin");
    cr_expect_str_eq(name, "https://me:word@h:8/a/b.bin");
    iter__free(name);
    char *hidden = iter__secrets_hide(&secrets, "https://h/a.rec?t=1");
    char *index = iter__strf("%s.idx", hidden);
    name = iter__secrets_reveal(&secrets, index);
    cr_expect_str_eq(name, "https://h/a.rec.idx?t=1");
    iter__free(name);
    iter__free(index);
    iter__free(hidden);
    name = iter__secrets_reveal(&secrets, "https://***@other/a?***-12");
    cr_expect_str_eq(name, "https://***@other/a?***-12");
    iter__free(name);
    iter__secrets_free(&secrets);
    cr_expect_eq(iter__alloc_live(), before);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

typedef struct seen {
    char text[1024];
    iter_status answer;
} seen;

static iter_status see(void *user, const iter__s3_entry *entry, iter_error *err) {
    seen *s = user;
    const size_t n = strlen(s->text);
    snprintf(s->text + n, sizeof(s->text) - n, "%s %s %s %llu;", entry->is_folder ? "d" : "f",
             entry->key, entry->etag, (unsigned long long)entry->bytes);
    return s->answer < 0 ? iter__fail(err, s->answer, "stopped") : ITER_OK;
}

static iter_status parse(const char *xml, seen *s, char **next, iter_error *err) {
    memset(err, 0, sizeof(*err));
    s->text[0] = '\0';
    return iter__s3_list_parse(xml, strlen(xml), see, s, next, err);
}

Test(remote_parts, lists) {
    seen s = {.answer = ITER_OK};
    iter_error err;
    char *next;
    cr_assert_eq(parse("<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://x\"><Name>b</Name>"
                       "<Prefix>p/</Prefix><EncodingType>url</EncodingType>"
                       "<IsTruncated>true</IsTruncated>"
                       "<NextContinuationToken>a&amp;b</NextContinuationToken>"
                       "<Contents><Key>p/a%20b%26</Key><ETag>&quot;12&quot;</ETag><Size>7</Size>"
                       "<Owner><ID>Size</ID></Owner></Contents>"
                       "<CommonPrefixes><Prefix>p/d/</Prefix></CommonPrefixes>"
                       "</ListBucketResult>",
                       &s, &next, &err),
                 ITER_OK, "%s", err.message);
    cr_expect_str_eq(s.text, "f p/a b& \"12\" 7;d p/d/  0;");
    cr_expect_str_eq(next, "a&b");
    iter__free(next);
    /* As MinIO orders it. */
    cr_assert_eq(parse("<ListBucketResult><Contents><Key>my+dog%2B1%2541</Key></Contents>"
                       "<CommonPrefixes><Prefix>my+cat/</Prefix></CommonPrefixes>"
                       "<EncodingType>url</EncodingType></ListBucketResult>",
                       &s, &next, &err),
                 ITER_OK, "%s", err.message);
    cr_expect_str_eq(s.text, "f my dog+1%41  0;d my cat/  0;");
    cr_assert_eq(parse("<ListBucketResult><Contents><Key>a%20b+c</Key></Contents>"
                       "</ListBucketResult>",
                       &s, &next, &err),
                 ITER_OK, "%s", err.message);
    cr_expect_str_eq(s.text, "f a%20b+c  0;");

    const char *const bad[] = {
        "",
        "no",
        "<Error/>",
        "<ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key>"
        "<Size>-1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>99999999999999999999</Size></Contents>"
        "</ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        "<!DOCTYPE x [<!ENTITY e \"e\">]><ListBucketResult/>",
        "<a><b><c><d><e><f><g><h><i/></h></g></f></e></d></c></b></a>"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect_eq(parse(bad[i], &s, &next, &err), ITER_EFORMAT, "%s", bad[i]);
        cr_expect(err.message[0] != '\0', "%s", bad[i]);
        cr_expect_null(next);
    }
    s.answer = ITER_ENOMEM;
    cr_expect_eq(parse("<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>", &s,
                       &next, &err),
                 ITER_ENOMEM);
}

Test(remote_parts, errors) {
    char out[64];
    const char *xml = "<Error><Code>SlowDown</Code><Message>wait &lt;a while&gt;</Message></Error>";
    iter__s3_error_parse(xml, strlen(xml), out, sizeof(out));
    cr_expect_str_eq(out, "SlowDown: wait <a while>");
    iter__s3_error_parse("<html>no</html>", 15, out, sizeof(out));
    cr_expect_str_eq(out, "");
    iter__s3_error_parse(xml, 30, out, sizeof(out)); /* cut */
    cr_expect_str_eq(out, "SlowDown");
}

/* ---- Uploads --------------------------------------------------------------------------------- */

static iter_status upload_id(const char *xml, char **out, iter_error *err) {
    memset(err, 0, sizeof(*err));
    return iter__s3_upload_parse(xml, strlen(xml), out, err);
}

static iter_status complete(const char *xml, bool *passes, iter_error *err) {
    memset(err, 0, sizeof(*err));
    return iter__s3_complete_parse(xml, strlen(xml), passes, err);
}

#define UPLOAD_ANSWER                                                                          \
    "<?xml version=\"1.0\"?>\n<InitiateMultipartUploadResult xmlns=\"http://x\">"              \
    "<Bucket>b</Bucket><Key>UploadId</Key><UploadId>A.1&amp;-_</UploadId><ChecksumAlgorithm/>" \
    "</InitiateMultipartUploadResult>"

Test(remote_parts, upload_begins) {
    iter_error err;
    char *id;
    cr_assert_eq(upload_id(UPLOAD_ANSWER, &id, &err), ITER_OK, "%s", err.message);
    cr_expect_str_eq(id, "A.1&-_");
    iter__free(id);
    const char *const bad[] = {
        "",
        "<InitiateMultipartUploadResult><UploadId>a",
        "<InitiateMultipartUploadResult/>",
        "<InitiateMultipartUploadResult><UploadId></UploadId></InitiateMultipartUploadResult>",
        "<Other><UploadId>a</UploadId></Other>",
        ("<InitiateMultipartUploadResult><x><UploadId>a</UploadId></x>"
         "</InitiateMultipartUploadResult>")};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect_eq(upload_id(bad[i], &id, &err), ITER_EFORMAT, "%s", bad[i]);
        cr_expect(err.message[0] && !id, "%s", bad[i]);
    }
}

Test(remote_parts, upload_without_memory) {
    const long before = iter__alloc_live();
    for (long n = 0;; n++) {
        iter_error err;
        char *id;
        iter__alloc_fail_after = n;
        const iter_status status = upload_id(UPLOAD_ANSWER, &id, &err);
        iter__alloc_fail_after = -1;
        cr_expect(status == ITER_OK || (status == ITER_ENOMEM && !id), "%ld: %s", n, err.message);
        iter__free(id);
        cr_expect_eq(iter__alloc_live(), before);
        if (status == ITER_OK) break;
    }
}

Test(remote_parts, upload_ends) {
    iter_error err;
    bool passes = true;
    cr_expect_eq(complete("<?xml version=\"1.0\"?>\n \n<CompleteMultipartUploadResult>"
                          "<Location>http://h</Location><ETag>&quot;1-2&quot;</ETag>"
                          "</CompleteMultipartUploadResult>",
                          &passes, &err),
                 ITER_OK, "%s", err.message);
    cr_expect_not(passes);
    cr_expect_eq(complete("<?xml version=\"1.0\"?> <Error><Code>InternalError</Code>"
                          "<Message>We met an error. Try again.</Message></Error>",
                          &passes, &err),
                 ITER_EIO);
    cr_expect(passes);
    cr_expect_str_eq(err.message, "InternalError: We met an error. Try again.");
    cr_expect_eq(complete("<Error><Code>InvalidPart</Code></Error>", &passes, &err), ITER_EIO);
    cr_expect_not(passes);
    const char *const bad[] = {"", "   ", "<html/>", "<CompleteMultipartUploadResult>",
                               "<Error><Code>SlowDown</Code>"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect_eq(complete(bad[i], &passes, &err), ITER_EFORMAT, "%s", bad[i]);
        cr_expect(err.message[0] && !passes, "%s", bad[i]);
    }
}

/* S3's limits: 10,000 parts of at most 5 GiB, an object of at most 5 TiB. */
Test(remote_parts, upload_sizes) {
    for (size_t first = ITER_PART_LEAST; first <= ITER_PART_BYTES_MAX; first *= 2) {
        uint64_t all = 0;
        for (uint32_t number = 1; number <= 10000; number++) {
            const uint64_t bytes = iter__upload_part_bytes(first, number);
            cr_expect(bytes >= first && bytes <= UINT64_C(5) << 30);
            all += bytes;
        }
        cr_expect(all >= UINT64_C(5) << 40, "%llu", (unsigned long long)all);
    }
    cr_expect_eq(iter__upload_part_bytes(ITER_PART_BYTES, 100), ITER_PART_BYTES);
}

Test(remote_parts, upload_names) {
    iter_error err;
    cr_expect_eq(iter__upload_check("s3://b/k", &err), ITER_OK);
    cr_expect_eq(iter__upload_check("https://h/k", &err), ITER_EUNSUPPORTED);
    cr_expect_eq(iter__upload_check("s3://b", &err), ITER_EINVAL);
    cr_expect_eq(iter__upload_check("s3:///k", &err), ITER_EINVAL);
    cr_expect_eq(iter__upload_check("s3://b/folder/", &err), ITER_EINVAL);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static char folder[64];

static void write_file(const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

static void set_up(void) {
    static const char *const names[] = {"AWS_ACCESS_KEY_ID",
                                        "AWS_SECRET_ACCESS_KEY",
                                        "AWS_SESSION_TOKEN",
                                        "AWS_PROFILE",
                                        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                        "AWS_EC2_METADATA_DISABLED",
                                        "AWS_EC2_METADATA_SERVICE_ENDPOINT"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
    strcpy(folder, "/tmp/iter-keys-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    char path[128];
    snprintf(path, sizeof(path), "%s/credentials", folder);
    setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
    snprintf(path, sizeof(path), "%s/config", folder);
    setenv("AWS_CONFIG_FILE", path, 1);
}

static void tear_down(void) {
    char path[128];
    snprintf(path, sizeof(path), "%s/credentials", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/config", folder);
    unlink(path);
    rmdir(folder);
}

TestSuite(remote_keys, .init = set_up, .fini = tear_down);

static char asked[1024];

static bool no_service(void *user, const char *url, bool put, const char *header, char *out,
                       size_t capacity) {
    (void)user, (void)out, (void)capacity;
    const size_t n = strlen(asked);
    snprintf(asked + n, sizeof(asked) - n, "%s %s %s;", put ? "PUT" : "GET", url,
             header ? header : "-");
    return false;
}

static const char *const answer =
    "{\n \"Code\": \"Success\", \"AccessKeyId\" : \"AK\", \"SecretAccessKey\": \"s\\/k\",\n"
    "\"Token\":\"t\\\"t\", \"Expiration\": \"2026-11-24T02:00:00Z\"}";

static bool service(void *user, const char *url, bool put, const char *header, char *out,
                    size_t capacity) {
    (void)no_service(user, url, put, header, out, capacity);
    const char *text = strstr(url, "/api/token")     ? "TOKEN\n"
                       : url[strlen(url) - 1] == '/' ? "role\n"
                                                     : answer;
    snprintf(out, capacity, "%s", text);
    return true;
}

static iter_status find(const char *profile, iter__credentials_ask *ask, iter__credentials *out,
                        iter_error *err) {
    memset(err, 0, sizeof(*err));
    asked[0] = '\0';
    return iter__credentials_find(profile, ask, NULL, out, err);
}

Test(remote_keys, environment_and_files) {
    iter__credentials c;
    iter_error err;
    write_file("credentials", "[default]\naws_access_key_id = D\naws_secret_access_key=d=1\n"
                              "# a note\n[ other ]\naws_access_key_id=O\naws_secret_access_key=o\n"
                              "aws_session_token = T\n[empty]\n");
    write_file("config", "[default]\nregion = eu-west-1\n[profile other]\nregion=us-west-2 \n");
    cr_assert_eq(find("", no_service, &c, &err), ITER_OK, "%s", err.message);
    cr_expect_str_eq(c.access_key, "D");
    cr_expect_str_eq(c.secret, "d=1");
    cr_expect_str_eq(c.token, "");
    setenv("AWS_PROFILE", "other", 1);
    cr_assert_eq(find("", no_service, &c, &err), ITER_OK);
    cr_expect_str_eq(c.access_key, "O");
    cr_expect_str_eq(c.token, "T");
    setenv("AWS_ACCESS_KEY_ID", "E", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "e", 1);
    cr_assert_eq(find("", no_service, &c, &err), ITER_OK);
    cr_expect_str_eq(c.access_key, "E");
    /* One that is named comes before the environment. */
    cr_assert_eq(find("default", no_service, &c, &err), ITER_OK);
    cr_expect_str_eq(c.access_key, "D");
    cr_expect_eq(find("empty", no_service, &c, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "has no keys"), "%s", err.message);
    cr_expect_eq(find("absent", no_service, &c, &err), ITER_EINVAL);
    cr_expect_str_eq(asked, "");
    char region[32];
    iter__credentials_setting("", "region", region, sizeof(region));
    cr_expect_str_eq(region, "us-west-2"); /* of AWS_PROFILE */
    iter__credentials_setting("default", "region", region, sizeof(region));
    cr_expect_str_eq(region, "eu-west-1");
    iter__credentials_setting("absent", "region", region, sizeof(region));
    cr_expect_str_eq(region, "");
}

Test(remote_keys, services) {
    iter__credentials c;
    iter_error err;
    cr_expect_eq(find("", no_service, &c, &err), ITER_EINVAL);
    cr_expect(strstr(err.message, "no credentials") && strstr(err.message, "anonymous=yes") &&
                  strstr(err.message, "--anonymous"),
              "%s", err.message);
    cr_expect_str_eq(asked, "PUT http://169.254.169.254/latest/api/token "
                            "X-aws-ec2-metadata-token-ttl-seconds: 21600;");
    cr_assert_eq(find("", service, &c, &err), ITER_OK);
    cr_expect_str_eq(asked,
                     "PUT http://169.254.169.254/latest/api/token "
                     "X-aws-ec2-metadata-token-ttl-seconds: 21600;"
                     "GET http://169.254.169.254/latest/meta-data/iam/security-credentials/ "
                     "X-aws-ec2-metadata-token: TOKEN;"
                     "GET http://169.254.169.254/latest/meta-data/iam/security-credentials/role "
                     "X-aws-ec2-metadata-token: TOKEN;");
    cr_expect_str_eq(c.access_key, "AK");
    cr_expect_str_eq(c.secret, "s/k");
    cr_expect_str_eq(c.token, "t\"t");
    cr_expect_eq(c.expires_s, 1795485600);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    cr_expect_eq(find("", service, &c, &err), ITER_EINVAL);
    setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x", 1);
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "tok", 1);
    cr_assert_eq(find("", service, &c, &err), ITER_OK);
    cr_expect_str_eq(asked, "GET http://169.254.170.2/v2/x Authorization: tok;");
}

Test(remote_keys, answers_cut_anywhere) {
    iter__credentials c;
    char text[512];
    const size_t n = strlen(answer);
    cr_expect(iter__credentials_parse(answer, &c));
    for (size_t i = 0; i + 1 < n; i++) {
        snprintf(text, sizeof(text), "%.*s", (int)i, answer);
        if (iter__credentials_parse(text, &c)) /* the keys are whole */
            cr_expect(i > (size_t)(strstr(answer, "s\\/k\"") - answer), "cut at %zu", i);
    }
}
