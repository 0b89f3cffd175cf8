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
    if (env(variable)[0]) return iter__strdup(env(variable));
    return env("HOME")[0] ? iter__strf("%s/.aws/%s", env("HOME"), name) : NULL;
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

/* Whether "[name]" or "[profile name]" heads the section of this profile. */
static bool is_section_of(char *head, const char *profile) {
    char *end = strchr(head, ']');
    if (!end) return false;
    *end = '\0';
    char *name = trim(head + 1);
    if (strncmp(name, "profile", 7) == 0 && isspace((unsigned char)name[7])) name = trim(name + 8);
    return strcmp(name, profile) == 0;
}

/* Looks `name` up in the profile's section of a file. True if the section is there. */
static bool look_up(const char *path, const char *profile, const char *name, char *out,
                    size_t capacity) {
    bool inside = false, found = false;
    char *line = iter__alloc(LINE_BYTES, 1);
    FILE *file = path && line ? fopen(path, "re") : NULL;
    while (file && fgets(line, LINE_BYTES, file)) {
        char *text = trim(line);
        if (*text == '[') {
            inside = is_section_of(text, profile);
            found = found || inside;
            continue;
        }
        char *equals = inside && *text != '#' && *text != ';' ? strchr(text, '=') : NULL;
        if (!equals) continue;
        *equals = '\0';
        if (strcasecmp(trim(text), name) != 0) continue;
        const char *value = trim(equals + 1);
        (void)copy(out, capacity, value, strlen(value));
    }
    if (file) fclose(file);
    iter__free(line);
    return found;
}

static const char *profile_or_default(const char *profile) {
    if (profile[0]) return profile;
    return env("AWS_PROFILE")[0] ? env("AWS_PROFILE") : "default";
}

/* In both files; credentials come before config. True if one has the profile. */
static bool look_up_both(const char *profile, const char *name, char *out, size_t capacity) {
    char *config = shared_path("AWS_CONFIG_FILE", "config");
    char *keys = shared_path("AWS_SHARED_CREDENTIALS_FILE", "credentials");
    const bool a = look_up(config, profile, name, out, capacity);
    const bool b = look_up(keys, profile, name, out, capacity);
    iter__free(config);
    iter__free(keys);
    return a || b;
}

void iter__credentials_setting(const char *profile, const char *name, char *out, size_t capacity) {
    out[0] = '\0';
    (void)look_up_both(profile_or_default(profile), name, out, capacity);
}

static bool from_files(const char *profile, iter__credentials *out, bool *out_there) {
    *out_there =
        look_up_both(profile, "aws_access_key_id", out->access_key, sizeof(out->access_key));
    (void)look_up_both(profile, "aws_secret_access_key", out->secret, sizeof(out->secret));
    (void)look_up_both(profile, "aws_session_token", out->token, sizeof(out->token));
    out->origin = "the shared files";
    return out->access_key[0] && out->secret[0];
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

static bool from_container(iter__credentials_ask *ask, void *user, char *body,
                           iter__credentials *out) {
    const char *relative = env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if (!relative[0] && !full[0]) return false;
    char *url = relative[0] ? iter__strf("%s%s", CONTAINER_HOST, relative) : iter__strdup(full);
    char token[LINE_BYTES] = "";
    const char *file = env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    FILE *from = file[0] ? fopen(file, "re") : NULL;
    if (from) {
        if (!fgets(token, sizeof(token), from)) token[0] = '\0';
        fclose(from);
    } else {
        (void)copy(token, sizeof(token), env("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
                   strlen(env("AWS_CONTAINER_AUTHORIZATION_TOKEN")));
    }
    char *header = token[0] ? iter__strf("Authorization: %s", trim(token)) : NULL;
    const bool got = url && ask(user, url, false, header, body, BODY_BYTES) &&
                     iter__credentials_parse(body, out);
    out->origin = "the container's service";
    iter__free(header);
    iter__free(url);
    return got;
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

static bool from_environment(iter__credentials *out) {
    const char *key = env("AWS_ACCESS_KEY_ID"), *secret = env("AWS_SECRET_ACCESS_KEY");
    const char *token = env("AWS_SESSION_TOKEN");
    out->origin = "the environment";
    return key[0] && secret[0] &&
           copy(out->access_key, sizeof(out->access_key), key, strlen(key)) &&
           copy(out->secret, sizeof(out->secret), secret, strlen(secret)) &&
           copy(out->token, sizeof(out->token), token, strlen(token));
}

iter_status iter__credentials_find(const char *profile, iter__credentials_ask *ask, void *user,
                                   iter__credentials *out, iter_error *err) {
    bool there = false;
    memset(out, 0, sizeof(*out));
    if (!profile[0] && from_environment(out)) return ITER_OK;
    memset(out, 0, sizeof(*out));
    if (from_files(profile_or_default(profile), out, &there)) return ITER_OK;
    if (profile[0])
        return iter__fail(err, ITER_EINVAL, "the profile '%s' %s in the shared files", profile,
                          there ? "has no keys" : "is not");
    char *body = iter__alloc(BODY_BYTES, 1);
    if (!body) return iter__fail(err, ITER_ENOMEM, "no memory for credentials");
    memset(out, 0, sizeof(*out));
    const bool got = from_container(ask, user, body, out) || from_machine(ask, user, body, out);
    memset(body, 0, BODY_BYTES);
    iter__free(body);
    if (got) return ITER_OK;
    return iter__fail(err, ITER_EINVAL,
                      "no credentials: not in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, not in "
                      "the profile '%s' of the shared files, not from a container's or the "
                      "machine's service; anonymous=yes asks without",
                      profile_or_default(""));
}

#endif
