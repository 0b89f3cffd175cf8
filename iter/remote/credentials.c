/*
 * credentials.c - see credentials.h.
 *
 * Source: AWS SDKs and Tools Reference Guide, "Standardized credential providers"; Amazon EC2,
 * "Retrieve security credentials from instance metadata" (version 2, with a token).
 */
#include "iter/remote/credentials.h"

#ifdef ITER_HAVE_REMOTE

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "iter/core/alloc.h"
#include "iter/core/error.h"

#define LINE_BYTES     8192
#define BODY_BYTES     16384
#define CONTAINER_HOST "http://169.254.170.2"
#define MACHINE_HOST   "http://169.254.169.254"

static const char *env(const char *name) {
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): nothing here sets it */
    return value ? value : "";
}

static bool copy(char *out, size_t capacity, const char *text, size_t n) {
    if (n >= capacity) return false;
    memcpy(out, text, n);
    out[n] = '\0';
    return true;
}

/* ---- The shared files ------------------------------------------------------------------------ */

/* "~/.aws/NAME", or what the variable names; NULL without memory or a home. */
static char *shared_path(const char *variable, const char *name) {
    const char *given = env(variable), *home = env("HOME");
    if (strncmp(given, "~/", 2) == 0 && home[0]) return iter__strf("%s%s", home, given + 1);
    if (given[0]) return iter__strdup(given);
    return home[0] ? iter__strf("%s/.aws/%s", home, name) : NULL;
}

static char *trim(char *text) {
    while (isspace((unsigned char)*text))
        text++;
    size_t n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    text[n] = '\0';
    return text;
}

/* Whether the head "[name]" is that of the profile's section. In the config file it is
 * "[profile name]", with or without quotes, except for the default one. */
static bool is_section_of(char *head, bool in_config, const char *profile) {
    char *end = strchr(head, ']');
    if (!end) return false;
    *end = '\0';
    char *name = trim(head + 1);
    if (!in_config || strcmp(name, "default") == 0) return strcmp(name, profile) == 0;
    if (strncmp(name, "profile", 7) != 0 || !isspace((unsigned char)name[7])) return false;
    name = trim(name + 8);
    const size_t n = strlen(name);
    if (n >= 2 && (name[0] == '"' || name[0] == '\'') && name[n - 1] == name[0]) {
        name[n - 1] = '\0';
        name++;
    }
    return strcmp(name, profile) == 0;
}

/* Looks `name` up in the profile's section of a file. True if the section is there. A line that is
 * indented further than the name before it belongs to that one's value. */
static bool look_up(const char *path, bool in_config, const char *profile, const char *name,
                    char *out, size_t capacity) {
    bool inside = false, found = false;
    size_t indent_of_last = SIZE_MAX;
    char *line = iter__alloc(LINE_BYTES, 1);
    FILE *file = path && line ? fopen(path, "re") : NULL;
    while (file && fgets(line, LINE_BYTES, file)) {
        const size_t indent = strspn(line, " \t");
        char *text = trim(line);
        if (!*text || *text == '#' || *text == ';' || indent > indent_of_last) continue;
        if (*text == '[') {
            inside = is_section_of(text, in_config, profile);
            found = found || inside;
            indent_of_last = SIZE_MAX;
            continue;
        }
        char *equals = strpbrk(text, "=:");
        if (!equals) continue;
        indent_of_last = indent;
        *equals = '\0';
        if (!inside || strcasecmp(trim(text), name) != 0) continue;
        const char *value = trim(equals + 1);
        (void)copy(out, capacity, value, strlen(value));
    }
    if (file) fclose(file);
    if (line) memset(line, 0, LINE_BYTES);
    iter__free(line);
    return found;
}

static const char *profile_or_default(const char *profile) {
    if (profile[0]) return profile;
    if (env("AWS_PROFILE")[0]) return env("AWS_PROFILE");
    return env("AWS_DEFAULT_PROFILE")[0] ? env("AWS_DEFAULT_PROFILE") : "default";
}

/* In both files; credentials come before config. True if one has the profile. */
static bool look_up_both(const char *profile, const char *name, char *out, size_t capacity) {
    char *config = shared_path("AWS_CONFIG_FILE", "config");
    char *keys = shared_path("AWS_SHARED_CREDENTIALS_FILE", "credentials");
    const bool a = look_up(config, true, profile, name, out, capacity);
    const bool b = look_up(keys, false, profile, name, out, capacity);
    iter__free(config);
    iter__free(keys);
    return a || b;
}

void iter__credentials_setting(const char *profile, const char *name, char *out, size_t capacity) {
    out[0] = '\0';
    (void)look_up_both(profile_or_default(profile), name, out, capacity);
}

/* Keys that lie in one file. Errors: EINVAL (one without the other). */
static iter_status from_file(const char *variable, bool in_config, const char *profile,
                             iter__credentials *out, iter_error *err) {
    iter_status status = ITER_OK;
    char *path = shared_path(variable, in_config ? "config" : "credentials");
    memset(out, 0, sizeof(*out));
    (void)look_up(path, in_config, profile, "aws_access_key_id", out->access_key,
                  sizeof(out->access_key));
    (void)look_up(path, in_config, profile, "aws_secret_access_key", out->secret,
                  sizeof(out->secret));
    (void)look_up(path, in_config, profile, "aws_session_token", out->token, sizeof(out->token));
    if (!out->token[0])
        (void)look_up(path, in_config, profile, "aws_security_token", out->token,
                      sizeof(out->token));
    if (out->access_key[0] && !out->secret[0])
        status = iter__fail(err, ITER_EINVAL,
                            "%s: the profile '%s' has aws_access_key_id, but no "
                            "aws_secret_access_key",
                            path, profile);
    iter__free(path);
    return status;
}

/* Keys of the profile, or none (*out without a key). Errors: EINVAL (they come from where this
 * library does not ask). */
static iter_status from_files(const char *profile, iter__credentials *out, bool *out_there,
                              iter_error *err) {
    static const char *const others[] = {"role_arn", "web_identity_token_file", "sso_session",
                                         "sso_start_url", "credential_process"};
    const size_t n_others = sizeof(others) / sizeof(others[0]);
    char value[LINE_BYTES] = "";
    *out_there = look_up_both(profile, "region", value, sizeof(value));
    for (size_t i = 0; i < n_others; i++) {
        if (i == n_others - 1) { /* it comes between the two files */
            ITER_TRY(from_file("AWS_SHARED_CREDENTIALS_FILE", false, profile, out, err));
            if (out->access_key[0]) return ITER_OK;
        }
        value[0] = '\0';
        (void)look_up_both(profile, others[i], value, sizeof(value));
        if (value[0])
            return iter__fail(err, ITER_EINVAL,
                              "the profile '%s' has %s, which is not supported; `aws configure "
                              "export-credentials --profile %s --format env` prints keys for the "
                              "environment",
                              profile, others[i], profile);
    }
    return from_file("AWS_CONFIG_FILE", true, profile, out, err);
}

/* ---- Services -------------------------------------------------------------------------------- */

/* The quote that ends the string which begins after the quote at `p`; NULL = none does. */
static const char *string_end(const char *p) {
    for (p++; *p && *p != '"'; p++) {
        if (*p == '\\' && *++p == '\0') return NULL;
    }
    return *p ? p : NULL;
}

/* The text of "name": "..." in an object of JSON without nested ones. Only \/ and \" are unescaped:
 * keys and times hold nothing else. */
static bool json_text(const char *json, const char *name, char *out, size_t capacity) {
    const size_t n_name = strlen(name);
    for (const char *p = json; (p = strchr(p, '"')); p++) {
        const char *key = p + 1;
        const char *end = string_end(p);
        if (!end) return false;
        const char *colon = end + 1 + strspn(end + 1, " \t\r\n");
        if ((size_t)(end - key) != n_name || strncmp(key, name, n_name) != 0 || *colon != ':') {
            p = end;
            continue;
        }
        const char *value = colon + 1 + strspn(colon + 1, " \t\r\n");
        if (*value++ != '"') return false;
        size_t n = 0;
        for (; *value && *value != '"'; value++) {
            if (*value == '\\') value++;
            if (!*value || n + 1 >= capacity) return false;
            out[n++] = *value;
        }
        out[n] = '\0';
        return *value == '"';
    }
    return false;
}

/* "2026-11-24T02:00:00Z" as seconds since 1970; 0 = not understood. */
static int64_t parse_time(const char *text) {
    struct tm tm;
    memset(&tm, 0, sizeof(tm));
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec) != 6)
        return 0;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    const time_t at = timegm(&tm);
    return at > 0 ? (int64_t)at : 0;
}

bool iter__credentials_parse(const char *json, iter__credentials *out) {
    char expires[64] = "";
    memset(out, 0, sizeof(*out));
    if (!json_text(json, "AccessKeyId", out->access_key, sizeof(out->access_key)) ||
        !json_text(json, "SecretAccessKey", out->secret, sizeof(out->secret)))
        return false;
    if (strstr(json, "\"Token\"") && !json_text(json, "Token", out->token, sizeof(out->token)))
        return false;
    if (json_text(json, "Expiration", expires, sizeof(expires)))
        out->expires_s = parse_time(expires);
    return out->access_key[0] && out->secret[0];
}

/* Whether a container's URL may be asked without TLS: its host is this machine, or an address of
 * AWS's that does not leave it. */
static bool is_near(const char *url) {
    static const char *const hosts[] = {"169.254.170.2", "169.254.170.23", "[fd00:ec2::23]",
                                        "localhost", "[::1]"};
    if (strncasecmp(url, "https://", 8) == 0) return true;
    if (strncasecmp(url, "http://", 7) != 0) return false;
    const char *host = url + 7;
    const size_t n_all = strcspn(host, "/?#");
    if (memchr(host, '@', n_all)) return false;
    const size_t n = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
        if (n == strlen(hosts[i]) && strncasecmp(host, hosts[i], n) == 0) return true;
    int end = 0;
    unsigned b, c, d;
    return sscanf(host, "127.%3u.%3u.%3u%n", &b, &c, &d, &end) == 3 && (size_t)end == n;
}

/* The header that the container's service wants (iter__free; *out NULL = none). Errors: EINVAL (the
 * file cannot be read, or more than a line), ENOMEM. */
static iter_status container_header(char **out, iter_error *err) {
    const char *path = env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    char *token = iter__alloc(LINE_BYTES, 1);
    iter_status status = ITER_OK;
    bool read = token != NULL;
    *out = NULL;
    if (token && path[0]) {
        FILE *file = fopen(path, "re");
        const size_t n = file ? fread(token, 1, LINE_BYTES - 1, file) : 0;
        read = file && !ferror(file) && n > 0 && n < LINE_BYTES - 1;
        token[n] = '\0';
        if (file) fclose(file);
    } else if (token) {
        const char *given = env("AWS_CONTAINER_AUTHORIZATION_TOKEN");
        read = copy(token, LINE_BYTES, given, strlen(given));
    }
    const char *one = token ? trim(token) : "";
    if (!token)
        status = iter__fail(err, ITER_ENOMEM, "no memory for credentials");
    else if (!read || strpbrk(one, "\r\n"))
        status = iter__fail(err, ITER_EINVAL, "%s: %s", path[0] ? path : "the container's token",
                            read ? "has more than one line" : "cannot be read, or is too long");
    else if (one[0] && !(*out = iter__strf("Authorization: %s", one)))
        status = iter__fail(err, ITER_ENOMEM, "no memory for credentials");
    if (token) memset(token, 0, LINE_BYTES);
    iter__free(token);
    return status;
}

/* If the environment names a container's service, no other one is asked: it would answer with the
 * keys of another role. */
static iter_status from_container(iter__credentials_ask *ask, void *user, char *body, bool *out_got,
                                  iter__credentials *out, iter_error *err) {
    const char *relative = env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    *out_got = false;
    if (!relative[0] && !full[0]) return ITER_OK;
    if (!relative[0] && !is_near(full))
        return iter__fail(err, ITER_EINVAL,
                          "AWS_CONTAINER_CREDENTIALS_FULL_URI: a token is sent to another machine "
                          "by https:// alone");
    char *url = relative[0] ? iter__strf("%s%s", CONTAINER_HOST, relative) : iter__strdup(full);
    char *header = NULL;
    iter_status status = url ? container_header(&header, err)
                             : iter__fail(err, ITER_ENOMEM, "no memory for credentials");
    if (status == ITER_OK) {
        *out_got =
            ask(user, url, false, header, body, BODY_BYTES) && iter__credentials_parse(body, out);
        out->origin = "the container's service";
        if (!*out_got)
            status = iter__fail(err, ITER_EINVAL,
                                "no credentials: the container's service gives none (%s)",
                                relative[0] ? "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
                                            : "AWS_CONTAINER_CREDENTIALS_FULL_URI");
    }
    iter__free(header);
    iter__free(url);
    return status;
}

static bool from_machine(iter__credentials_ask *ask, void *user, char *body,
                         iter__credentials *out) {
    if (strcasecmp(env("AWS_EC2_METADATA_DISABLED"), "true") == 0) return false;
    const char *host = env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const size_t n_host = strlen(host);
    char *base = iter__strf("%.*s", (int)(n_host && host[n_host - 1] == '/' ? n_host - 1 : n_host),
                            n_host ? host : MACHINE_HOST);
    if (base && !n_host) {
        iter__free(base);
        base = iter__strdup(MACHINE_HOST);
    }
    char *url = base ? iter__strf("%s/latest/api/token", base) : NULL;
    char *header = NULL, *roles = NULL, *one = NULL;
    bool got = false;
    if (url &&
        ask(user, url, true, "X-aws-ec2-metadata-token-ttl-seconds: 21600", body, BODY_BYTES)) {
        header = iter__strf("X-aws-ec2-metadata-token: %s", trim(body));
        roles = iter__strf("%s/latest/meta-data/iam/security-credentials/", base);
        if (header && roles && ask(user, roles, false, header, body, BODY_BYTES)) {
            body[strcspn(body, "\r\n")] = '\0';
            one = iter__strf("%s%s", roles, body);
            got = one && body[0] && ask(user, one, false, header, body, BODY_BYTES) &&
                  iter__credentials_parse(body, out);
        }
    }
    out->origin = "the machine's service";
    iter__free(one);
    iter__free(roles);
    iter__free(header);
    iter__free(url);
    iter__free(base);
    return got;
}

/* ---- The chain ------------------------------------------------------------------------------- */

/* Errors: EINVAL (one of the keys without the other; too long). */
static iter_status from_environment(bool *out_got, iter__credentials *out, iter_error *err) {
    const char *key = env("AWS_ACCESS_KEY_ID"), *secret = env("AWS_SECRET_ACCESS_KEY");
    const char *token = env("AWS_SESSION_TOKEN");
    if (!token[0]) token = env("AWS_SECURITY_TOKEN"); /* its old name */
    *out_got = false;
    if (!key[0]) return ITER_OK;
    if (!secret[0])
        return iter__fail(err, ITER_EINVAL,
                          "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not");
    out->origin = "the environment";
    *out_got = copy(out->access_key, sizeof(out->access_key), key, strlen(key)) &&
               copy(out->secret, sizeof(out->secret), secret, strlen(secret)) &&
               copy(out->token, sizeof(out->token), token, strlen(token));
    return *out_got ? ITER_OK
                    : iter__fail(err, ITER_EINVAL, "the keys of the environment are too long");
}

static iter_status from_services(iter__credentials_ask *ask, void *user, iter__credentials *out,
                                 iter_error *err) {
    bool got;
    char *body = iter__alloc(BODY_BYTES, 1);
    if (!body) return iter__fail(err, ITER_ENOMEM, "no memory for credentials");
    iter_status status = from_container(ask, user, body, &got, out, err);
    if (status == ITER_OK && !got && !from_machine(ask, user, body, out))
        status = iter__fail(err, ITER_EINVAL,
                            "no credentials: not in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                            "not in the profile '%s' of the shared files, not from a container's "
                            "or the machine's service; anonymous=yes in a spec, or iterpack's "
                            "--anonymous, asks without",
                            profile_or_default(""));
    memset(body, 0, BODY_BYTES);
    iter__free(body);
    return status;
}

iter_status iter__credentials_find(const char *given, iter__credentials_ask *ask, void *user,
                                   iter__credentials *out, iter_error *err) {
    bool got = false, there = false;
    const char *profile = profile_or_default(given);
    memset(out, 0, sizeof(*out));
    if (!given[0]) {
        ITER_TRY(from_environment(&got, out, err));
        if (got) return ITER_OK;
        if (env("AWS_WEB_IDENTITY_TOKEN_FILE")[0] && env("AWS_ROLE_ARN")[0])
            return iter__fail(err, ITER_EINVAL,
                              "AWS_WEB_IDENTITY_TOKEN_FILE: roles by web identity are not "
                              "supported; `aws configure export-credentials --format env` prints "
                              "keys for the environment");
    }
    ITER_TRY(from_files(profile, out, &there, err));
    out->origin = "the shared files";
    if (out->access_key[0]) return ITER_OK;
    if (given[0] || (!there && strcmp(profile, "default") != 0))
        return iter__fail(err, ITER_EINVAL, "the profile '%s' %s in the shared files", profile,
                          there ? "has no keys" : "is not");
    memset(out, 0, sizeof(*out));
    return from_services(ask, user, out, err);
}

#endif
