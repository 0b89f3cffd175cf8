/* fake_curl_bare.c - a libcurl of the oldest version that will do, without a function that is
 * needed. */
#include <curl/curl.h>
#include <stddef.h>

__attribute__((visibility("default"))) curl_version_info_data *curl_version_info(CURLversion age) {
    static curl_version_info_data info = {.version = "7.68.0", .version_num = 0x074400};
    (void)age;
    return &info;
}
