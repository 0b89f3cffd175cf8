/* doctor.c - code that all checks of a machine share: items, and small files of the system. */
#include "bench/doctor/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

doctor_item *doctor_add(doctor *d, const char *item, doctor_state state, const char *value, ...) {
    doctor_item *out = &d->items[d->n_items < DOCTOR_ITEMS_MAX ? d->n_items++ : d->n_items - 1];
    va_list args;
    *out = (doctor_item){.item = item, .state = state};
    va_start(args, value);
    vsnprintf(out->value, sizeof(out->value), value, args);
    va_end(args);
    return out;
}

void doctor_costs(doctor_item *item, const char *text, ...) {
    va_list args;
    va_start(args, text);
    vsnprintf(item->costs, sizeof(item->costs), text, args);
    va_end(args);
}

void doctor_mend(doctor_item *item, const char *text, ...) {
    va_list args;
    va_start(args, text);
    vsnprintf(item->mend, sizeof(item->mend), text, args);
    va_end(args);
}

bool doctor_line(const char *path, char *out, size_t capacity) {
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    const bool good = fgets(out, (int)capacity, file) != NULL;
    fclose(file);
    for (size_t n = good ? strlen(out) : 0; n > 0 && strchr(" \t\n", out[n - 1]) != NULL; n--)
        out[n - 1] = '\0';
    return good;
}

bool doctor_number(const char *path, const char *key, unsigned long long *out) {
    char line[256];
    FILE *file = fopen(path, "re");
    const size_t n = strlen(key);
    bool found = false;
    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, key, n) == 0 && (line[n] == ':' || line[n] == ' '))
            found = sscanf(line + n + 1, "%llu", out) == 1;
    if (file != NULL) fclose(file);
    return found;
}
