/* export.h - how public declarations are marked. */
#ifndef ITER_EXPORT_H
#define ITER_EXPORT_H

#if defined(__GNUC__)
#define ITER_API       __attribute__((visibility("default")))
#define ITER_NODISCARD __attribute__((warn_unused_result))
#else
#define ITER_API
#define ITER_NODISCARD
#endif

#ifdef __cplusplus
#define ITER_BEGIN_DECLS extern "C" {
#define ITER_END_DECLS   }
#else
#define ITER_BEGIN_DECLS
#define ITER_END_DECLS
#endif

#endif
