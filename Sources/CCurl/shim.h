// The system's libcurl. Swift cannot call its variadic setters, so wrappers follow.
#ifndef VIGLA_CCURL_H
#define VIGLA_CCURL_H

#include <curl/curl.h>

static inline CURLcode vigla_curl_set_string(CURL *handle, CURLoption option, const char *value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode vigla_curl_set_long(CURL *handle, CURLoption option, long value) { return curl_easy_setopt(handle, option, value); }
static inline CURLcode vigla_curl_set_list(CURL *handle, CURLoption option, struct curl_slist *value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode vigla_curl_set_context(CURL *handle, CURLoption option, void *value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode vigla_curl_set_callback(CURL *handle, CURLoption option, size_t (*value)(char *, size_t, size_t, void *)) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode vigla_curl_set_blob(CURL *handle, CURLoption option, const void *bytes, size_t count) {
    struct curl_blob blob = {(void *)bytes, count, CURL_BLOB_COPY};
    return curl_easy_setopt(handle, option, &blob);
}
// Copies the bytes.
static inline CURLcode vigla_curl_set_post(CURL *handle, const void *bytes, size_t count) {
    CURLcode code = curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)count);
    return code == CURLE_OK ? curl_easy_setopt(handle, CURLOPT_COPYPOSTFIELDS, bytes ? bytes : "") : code;
}
static inline CURLcode vigla_curl_set_open_socket(CURL *handle, curl_opensocket_callback open, void *context) {
    CURLcode code = curl_easy_setopt(handle, CURLOPT_OPENSOCKETDATA, context);
    return code == CURLE_OK ? curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, open) : code;
}
static inline CURLcode vigla_curl_set_before_request(CURL *handle, curl_prereq_callback check, void *context) {
    CURLcode code = curl_easy_setopt(handle, CURLOPT_PREREQDATA, context);
    return code == CURLE_OK ? curl_easy_setopt(handle, CURLOPT_PREREQFUNCTION, check) : code;
}
static inline CURLMcode vigla_curl_multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}
static inline CURLcode vigla_curl_get_string(CURL *handle, CURLINFO what, const char **value) {
    return curl_easy_getinfo(handle, what, value);
}
static inline CURLcode vigla_curl_get_long(CURL *handle, CURLINFO what, long *value) { return curl_easy_getinfo(handle, what, value); }

#endif
