// The border between hami and backends that are compiled elsewhere: two tables of C functions, one
// for each side, and plain structs. Nothing of C++ crosses it, so both sides may come from
// different compilers and standard libraries. Write backends with hami/hami.h; this file is for
// other languages.
//
// Rules. Every table begins with its size in bytes and only ever grows at its end: a reader never
// looks behind the size it was given, and a member that is not there counts as zero. Such an
// addition raises HAMI_ABI_MINOR; any other change raises HAMI_ABI_MAJOR. No function may throw.
// Text is UTF-8 with a length and need not end in a zero, unless its type is `const char*`.
#ifndef HAMI_ABI_H
#define HAMI_ABI_H

#include <stdint.h>

#define HAMI_ABI_MAJOR 1
#define HAMI_ABI_MINOR 0

#ifdef __cplusplus
extern "C" {
#endif

// --- results of functions ----------------------------------------------------------------------

typedef int32_t hami_status;
enum {
  HAMI_OK = 0,
  HAMI_FAILED = 1,     // anything that has no status of its own
  HAMI_NO_MEMORY = 2,  // running again would be wrong
  HAMI_NOT_FOUND = 3,  // no such key, or no such index
  HAMI_BAD_VALUE = 4   // an argument is of a kind, shape or form that the function cannot take
};

// --- values ------------------------------------------------------------------------------------

typedef struct hami_text {
  const char* data;
  uint64_t size;
} hami_text;

typedef struct hami_object hami_object;  // what the host keeps for a value, counted by reference
typedef struct hami_dict hami_dict;      // a dict of the host; its owner says how long it lives
typedef struct hami_item hami_item;      // one request inside a run
typedef struct hami_call hami_call;      // one call of a backend; lives as long as the call

enum {
  HAMI_NONE = 0,
  HAMI_BOOL = 1,    // integer is 0 or 1
  HAMI_INT = 2,     // integer
  HAMI_FLOAT = 3,   // real
  HAMI_STR = 4,     // text
  HAMI_BYTES = 5,   // text
  HAMI_TENSOR = 6,  // object
  HAMI_LIST = 7,    // object
  HAMI_TABLE = 8,   // object: a dict as a value
  HAMI_OPAQUE = 9   // object: something of the host that only passes through
};

// A value that the host gives is borrowed: `text` and `object` are valid until the dict or list
// that it came from changes or ends. `retain(object)` keeps both longer.
typedef struct hami_value {
  int32_t kind;
  int32_t reserved;  // zero
  int64_t integer;
  double real;
  hami_text text;
  const hami_object* object;  // null for the scalars and None
} hami_value;

// --- tensors: the layout of DLPack 1 -----------------------------------------------------------

// DLTensor. `strides` are in elements, null for row-major order; `type_code` is 0 int, 1 unsigned,
// 2 float, 4 bfloat, 5 complex, 6 bool; `device_type` is 1 for the CPU, 2 for CUDA, 3 for memory of
// the host that CUDA has pinned.
typedef struct hami_tensor {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t num_dims;
  uint8_t type_code;
  uint8_t type_bits;
  uint16_t type_lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} hami_tensor;

// DLManagedTensorVersioned: whoever has it owns it, and ends it with its deleter, on any thread.
typedef struct hami_managed_tensor {
  uint32_t dlpack_major;
  uint32_t dlpack_minor;
  void* context;
  void (*deleter)(struct hami_managed_tensor* self);
  uint64_t flags;  // bit 0: read only
  hami_tensor tensor;
} hami_managed_tensor;

#define HAMI_DLPACK_MAJOR 1
#define HAMI_TENSOR_READ_ONLY 1

// --- what the host offers ----------------------------------------------------------------------

typedef struct hami_host {
  uint64_t size;
  uint32_t abi_major;
  uint32_t abi_minor;

  // Why the last function of this table failed on this thread.
  hami_text (*last_error)(void);

  // Any thread, at any time.
  void (*retain)(const hami_object* object);
  void (*release)(const hami_object* object);

  // Reading a dict. `get` gives HAMI_NOT_FOUND for a key that is not there (None is a value);
  // entries are counted from 0 in the order in which they were set.
  hami_status (*dict_get)(const hami_dict* dict, hami_text key, hami_value* out);
  uint64_t (*dict_size)(const hami_dict* dict);
  hami_status (*dict_at)(const hami_dict* dict, uint64_t index, hami_text* key, hami_value* value);
  // Writing one. The value is copied (text without object) or shared (with one).
  hami_status (*dict_set)(hami_dict* dict, hami_text key, const hami_value* value);

  // New values: `out` gets one reference, which the caller releases.
  hami_status (*text_new)(int32_t kind, hami_text text, hami_value* out);
  hami_status (*list_new)(const hami_value* values, uint64_t num_values, hami_value* out);
  hami_status (*table_new)(hami_value* out, hami_dict** out_dict);
  // Uninitialised row-major memory of the CPU, aligned to 64 bytes. Of `like` the type and shape
  // are read.
  hami_status (*tensor_new)(const hami_tensor* like, hami_value* out);
  // Takes `tensor` over, without a copy; its deleter is called in any case, on any thread.
  hami_status (*tensor_import)(hami_managed_tensor* tensor, hami_value* out);

  // Looking into values.
  uint64_t (*list_size)(const hami_object* list);
  hami_status (*list_at)(const hami_object* list, uint64_t index, hami_value* out);
  const hami_dict* (*table_dict)(const hami_object* table);
  // What a value is in words that a user of the host knows, for messages.
  hami_status (*type_name)(const hami_value* value, hami_value* out_text);
  // A view without a copy, borrowed from the object.
  hami_status (*tensor_view)(const hami_object* tensor, hami_tensor* out);
  int32_t (*tensor_is_read_only)(const hami_object* tensor);
  // The same as something of its own, which keeps the memory alive until its deleter is called.
  hami_status (*tensor_export)(const hami_object* tensor, hami_managed_tensor** out);

  // The items of a run. `item_rows` is the number of rows that the item brings (`request_size`).
  uint64_t (*num_items)(const hami_call* call);
  hami_item* (*item_at)(hami_call* call, uint64_t index);
  hami_dict* (*item_dict)(hami_item* item);
  int64_t (*item_rows)(const hami_item* item);
  void (*item_erase)(hami_item* item, hami_text key);
  // Ends this item alone with an error. `is_request`: the request is at fault, not the backend.
  void (*item_fail)(hami_item* item, int32_t is_request, hami_text message, hami_text help);
  // Sets `result` of each item. Another number of values than items fails the whole run.
  hami_status (*set_results)(hami_call* call, const hami_value* values, uint64_t num_values);
  // What is wrong, before a function of the backend returns a failure. Copied.
  void (*explain)(hami_call* call, int32_t is_request, hami_text message, hami_text help);
  // The name of the node, and which of its instances this is. The text lives as long as the call.
  hami_text (*node_name)(const hami_call* call);
  int32_t (*instance_index)(const hami_call* call);
} hami_host;

// --- what a plugin offers ----------------------------------------------------------------------

typedef struct hami_param {
  uint64_t size;
  const char* name;
  const char* type;  // int, float, bool, str, path, list (of texts) or any
  const char* doc;
  const char* unit;          // null: none
  hami_value default_value;  // HAMI_NONE: none
  int32_t is_required;
  int32_t has_min;
  int32_t has_max;
  int32_t reserved;
  double min;  // inclusive
  double max;  // inclusive
  const char* const* choices;
  uint64_t num_choices;
} hami_param;

enum {
  HAMI_REENTRANT = 1,      // `forward` of one instance may run on several threads at once
  HAMI_NOT_IDEMPOTENT = 2  // a batch that failed must not run again in parts
};

typedef struct hami_backend_class {
  uint64_t size;
  const char* name;
  const char* doc;
  const hami_param* const* params;
  uint64_t num_params;
  const void* context;  // for `create`

  // Makes an instance from parameters that have been checked; `params` lives as long as the call.
  hami_status (*create)(const void* context, hami_call* call, const hami_dict* params,
                        void** out_instance);
  void (*destroy)(void* instance);
  // Runs a batch: sets `result` of each item, or fails it. Never under a lock of the host.
  hami_status (*forward)(void* instance, hami_call* call);

  // From here on everything may be missing.

  // The fewest and most rows of a run; most = INT64_MAX for any number. Null: any number.
  hami_status (*batch_range)(void* instance, hami_call* call, int64_t* min, int64_t* max);
  uint64_t traits;
  // The keys that it reads. None: `data`.
  const char* const* reads;
  uint64_t num_reads;
  // How deep lists and dicts must be opened for it to look inside; deeper ones are opaque.
  int32_t container_depth;
  int32_t reserved;
} hami_backend_class;

typedef struct hami_plugin {
  // These three never change, whatever the version.
  uint64_t size;
  uint32_t abi_major;
  uint32_t abi_minor;

  // How much of `hami_host` the plugin uses: a host with less refuses it.
  uint64_t host_size;
  const char* name;
  // Called once, before anything else. The host's table lives as long as the process.
  hami_status (*open)(const hami_host* host);
  const hami_backend_class* const* classes;
  uint64_t num_classes;
} hami_plugin;

// The one symbol of a plugin. Called before anything is known of its version: it must do nothing
// but return a table that lives as long as the library.
#define HAMI_PLUGIN_SYMBOL "hami_plugin_describe"
typedef const hami_plugin* (*hami_plugin_describe_function)(void);

#ifdef __cplusplus
}
#endif

#endif  // HAMI_ABI_H
