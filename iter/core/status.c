/* status.c - the text of every status, made from the same list as the enum. */
#include <iter/status.h>

const char *iter_status_text(iter_status status) {
    switch (status) {
#define ITER_X(name, value, text) \
    case ITER_##name: return text;
        ITER_STATUS_MAP(ITER_X)
#undef ITER_X
    }
    return "unknown status";
}
