/* fake_curl_old.c - a libcurl of 2018, whose version is too old. */
#include <curl/curl.h>
#include <stddef.h>

__attribute__((visibility("default"))) curl_version_info_data *curl_version_info(CURLversion age) {
    static curl_version_info_data info = {.version = "7.61.1", .version_num = 0x073d01};
    (void)age;
    return &info;
}
