/* A plugin in plain C, against the table alone. Macros change one thing each, so that the tests can
   load what is wrong with it; without them it is right. */
#include <hami/abi.h>
#include <stddef.h>
#include <string.h>

#ifndef NAME
#define NAME "Plain"
#endif
#ifndef MAJOR
#define MAJOR HAMI_ABI_MAJOR
#endif
#ifndef MINOR
#define MINOR HAMI_ABI_MINOR
#endif
#ifndef PLUGIN_SIZE
#define PLUGIN_SIZE sizeof(hami_plugin)
#endif
#ifndef HOST_SIZE
#define HOST_SIZE sizeof(hami_host)
#endif
#ifndef CLASS_SIZE
#define CLASS_SIZE sizeof(hami_backend_class)
#endif
#ifndef OPEN_STATUS
#define OPEN_STATUS HAMI_OK
#endif
#ifndef NUM_CLASSES
#define NUM_CLASSES 1
#endif
#ifndef TYPE
#define TYPE "int"
#endif
#ifndef DEFAULT_KIND
#define DEFAULT_KIND HAMI_INT
#endif
#ifndef FORWARD
#define FORWARD forward
#endif
#ifndef MIN_ROWS
#define MIN_ROWS 1
#endif
#ifndef MAX_ROWS
#define MAX_ROWS 4
#endif
#ifndef CREATE_STATUS
#define CREATE_STATUS HAMI_OK
#endif
#ifndef SYMBOL
#define SYMBOL hami_plugin_describe
#endif
#ifndef TABLE
#define TABLE &plugin
#endif
#ifdef LACKS
void nobody_defines_this(void);
#endif

static const hami_host* host;
static int64_t factor;

static hami_text text(const char* characters) {
  hami_text made;
  made.data = characters;
  made.size = strlen(characters);
  return made;
}

static hami_status create(const void* context, hami_call* call, const hami_dict* params,
                          void** out) {
  hami_value value;
  (void)context;
  (void)call;
  if (host->dict_get(params, text("factor"), &value) != HAMI_OK) return HAMI_FAILED;
  factor = value.integer;
  *out = &factor;
#ifdef EXPLANATION
  host->explain(call, 0, text(EXPLANATION), text(""));
#endif
  return CREATE_STATUS;
}

static void destroy(void* instance) { (void)instance; }

static hami_status forward(void* instance, hami_call* call) {
  uint64_t i;
#ifdef LACKS
  nobody_defines_this();
#endif
  for (i = 0; i < host->num_items(call); ++i) {
    hami_dict* dict = host->item_dict(host->item_at(call, i));
    hami_value value;
    if (host->dict_get(dict, text("data"), &value) != HAMI_OK) return HAMI_NOT_FOUND;
#ifdef RESULT_KIND
    value.kind = RESULT_KIND;
    if (host->dict_set(dict, text("result"), &value) != HAMI_OK) {
      host->explain(call, 0, host->last_error(), text(""));
      return HAMI_FAILED;
    }
#else
    value.integer *= *(int64_t*)instance;
    host->dict_set(dict, text("result"), &value);
#endif
  }
  return HAMI_OK;
}

static hami_status batch_range(void* instance, hami_call* call, int64_t* min, int64_t* max) {
  (void)instance;
  (void)call;
  *min = MIN_ROWS;
  *max = MAX_ROWS;
  return HAMI_OK;
}

static hami_status open(const hami_host* given) {
  host = given;
  return OPEN_STATUS;
}

static const hami_param factor_param = {sizeof(hami_param),
                                        "factor",
                                        TYPE,
                                        "what to multiply with",
                                        0,
                                        {DEFAULT_KIND, 0, 2, 0.0, {"two", 3}, 0},
                                        0,
                                        1,
                                        0,
                                        0,
                                        1.0,
                                        0.0,
                                        0,
                                        0};
static const hami_param* const params[] = {&factor_param, &factor_param};

#ifndef NUM_PARAMS
#define NUM_PARAMS 1
#endif

static const hami_backend_class plain = {
    CLASS_SIZE, NAME,    "Multiplies integers.", params, NUM_PARAMS, 0, &create,
    &destroy,   FORWARD, &batch_range,           0,      0,          0, 0,
    0};
static const hami_backend_class* const classes[] = {&plain, &plain};

static const hami_plugin plugin = {PLUGIN_SIZE, MAJOR, MINOR,   HOST_SIZE,
                                   "plain",     &open, classes, NUM_CLASSES};

const hami_plugin* SYMBOL(void) { return TABLE; }
