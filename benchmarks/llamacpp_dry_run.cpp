// What llama.cpp would allocate for a model, by its own dry run: no weight is read, nothing is computed.
//
// Usage: dry_run MODEL.gguf DEVICES CONTEXT UBATCH SEQUENCES UNIFIED CACHE_TYPE FLASH OUTPUTS EXPERTS
//
// DEVICES 0 is the CPU alone. Otherwise so many stand-ins of a CUDA device are registered, or one for each of
// GIB+GIB that are free on it: they state what ggml-cuda states of itself (alignment, rows padded to 512,
// operations, room for keys and values in f16 beside fused attention), and allocate nothing. EXPERTS is
// `card`, or `ram` as with --cpu-moe. The log goes to stdout, then a line a buffer type:
// bytes NAME host MODEL CONTEXT COMPUTE.

#include "../src/llama-ext.h"
#include "ggml-backend-impl.h"
#include "ggml-cpp.h"
#include "llama.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

static const size_t ALIGNMENT = 128, ROW_PADDING = 512;
static const int MOST = 8;

static ggml_backend_device devices[MOST];
static ggml_backend_buffer_type types[MOST], host;
static std::string names[MOST];
static size_t sizes[MOST];
static ggml_backend_reg registry;
static int count = 0;

static int index_of(ggml_backend_dev_t dev) { return (int) (dev - devices); }

// buffers: addresses alone

static void free_nothing(ggml_backend_buffer_t) {}
static void * base_of(ggml_backend_buffer_t) { return (void *) (uintptr_t) 0x100000; }
static void set_nothing(ggml_backend_buffer_t, ggml_tensor *, const void *, size_t, size_t) {}
static void get_nothing(ggml_backend_buffer_t, const ggml_tensor *, void *, size_t, size_t) {}
static void fill_nothing(ggml_backend_buffer_t, ggml_tensor *, uint8_t, size_t, size_t) {}
static void clear_nothing(ggml_backend_buffer_t, uint8_t) {}

static ggml_backend_buffer_t alloc_nothing(ggml_backend_buffer_type_t buft, size_t size) {
    ggml_backend_buffer_i calls = {};
    calls.free_buffer   = free_nothing;
    calls.get_base      = base_of;
    calls.memset_tensor = fill_nothing;
    calls.set_tensor    = set_nothing;
    calls.get_tensor    = get_nothing;
    calls.clear         = clear_nothing;
    return ggml_backend_buffer_init(buft, calls, nullptr, size);
}

static const char * type_name(ggml_backend_buffer_type_t buft) {
    return names[index_of(buft->device)].c_str();
}

static size_t alignment(ggml_backend_buffer_type_t) { return ALIGNMENT; }

// ggml-cuda.cu, get_alloc_size of its buffers; fattn.cu, keys and values that are not f16 (prompts)
static size_t alloc_size(ggml_backend_buffer_type_t, const ggml_tensor * t) {
    size_t size = ggml_nbytes(t);
    if (t->op == GGML_OP_FLASH_ATTN_EXT) {
        const ggml_tensor * k = t->src[1], * v = t->src[2];
        const bool same = v->view_src == k->view_src && v->view_offs == k->view_offs;
        const bool shared = v->view_src && (v->view_src == k || same);
        for (const ggml_tensor * each : {k, v}) {
            if (each->type != GGML_TYPE_F16 && !(each == v && shared)) {
                size = GGML_PAD(size, ALIGNMENT) + ggml_nelements(each) * sizeof(ggml_fp16_t);
            }
        }
    } else if (ggml_is_quantized(t->type) && t->ne[0] % ROW_PADDING != 0) {
        size += ggml_row_size(t->type, ROW_PADDING - t->ne[0] % ROW_PADDING);
    }
    return size;
}

static const char * host_name(ggml_backend_buffer_type_t) { return "Host"; }

// the device

static const char * device_name(ggml_backend_dev_t dev) { return names[index_of(dev)].c_str(); }
static void device_memory(ggml_backend_dev_t dev, size_t * free, size_t * total) {
    *free = *total = sizes[index_of(dev)];
}

static enum ggml_backend_dev_type device_type(ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_GPU; }
static ggml_backend_buffer_type_t device_buffers(ggml_backend_dev_t dev) { return &types[index_of(dev)]; }
static ggml_backend_buffer_type_t host_buffers(ggml_backend_dev_t) { return &host; }
static bool takes_buffer(ggml_backend_dev_t dev, ggml_backend_buffer_type_t buft) {
    return buft->device == dev && buft != &host;
}

static void device_props(ggml_backend_dev_t dev, ggml_backend_dev_props * props) {
    props->name = props->description = device_name(dev);
    props->type = GGML_BACKEND_DEVICE_TYPE_GPU;
    props->device_id = nullptr;
    device_memory(dev, &props->memory_free, &props->memory_total);
    props->caps.async = props->caps.host_buffer = props->caps.events = true;
}

// fattn.cu: widths of heads that its kernels are built for, on cards with matrix units
static bool takes_attention(const ggml_tensor * op) {
    const ggml_tensor * q = op->src[0], * k = op->src[1], * v = op->src[2], * mask = op->src[3];
    const int64_t group = q->ne[2] / k->ne[2], keys = k->ne[0], values = v->ne[0];
    float bias = 0.0f;
    memcpy(&bias, (const float *) op->op_params + 1, sizeof(float));
    const bool grouped = group >= 2 && mask && bias == 0.0f && k->ne[1] % 256 == 0;
    if (mask && mask->ne[2] != 1) return false;
    switch (keys) {
        case 40: case 64: case 72: case 80: case 96: case 112: case 128: case 256: return keys == values;
        case 192: return values == 128 && grouped && group % 8 == 0;
        case 320: return values == 256 && grouped && group % 32 == 0;
        case 512: return values == 512 && grouped;
        case 576: return values == 512 && grouped;
        default: return false;
    }
}

// ggml-cuda.cu, supports_op: what the graphs here could ask and be refused
static bool takes(ggml_backend_dev_t dev, const ggml_tensor * op) {
    for (const ggml_tensor * src : op->src) {
        const ggml_backend_buffer_type_t held = src && src->buffer ? src->buffer->buft : nullptr;
        if (!held || held == &host || !held->device || held->device == dev) continue;
        if (held->device->reg == dev->reg) return false;
    }
    switch (op->op) {
        case GGML_OP_FLASH_ATTN_EXT: return takes_attention(op);
        case GGML_OP_SSM_CONV: return op->src[0]->ne[1] % 128 == 0;
        case GGML_OP_SSM_SCAN: {
            const int64_t * state = op->src[0]->ne;
            if (op->src[3]->ne[0] == 1) {
                return (state[0] == 96 || state[0] == 128 || state[0] == 256) && state[1] % 16 == 0;
            }
            return state[0] == 16 && state[1] == 1 && state[2] % 128 == 0 && op->src[4]->ne[1] == 1;
        }
        default: return true;
    }
}

// ggml-cuda.cu, offload_op: products of 32 rows and more with weights in RAM copy these to the card
static bool takes_from_ram(ggml_backend_dev_t, const ggml_tensor * op) {
    switch (op->op) {
        case GGML_OP_GET_ROWS: return false;
        case GGML_OP_MUL_MAT: return op->ne[1] >= 32;
        case GGML_OP_MUL_MAT_ID:
        case GGML_OP_ROPE: return op->ne[2] >= 32;
        default: return ggml_nrows(op) >= 32;
    }
}

static ggml_backend_event_t new_event(ggml_backend_dev_t dev) {
    return new ggml_backend_event { dev, nullptr };
}

static void free_event(ggml_backend_dev_t, ggml_backend_event_t event) { delete event; }
static void wait_device(ggml_backend_dev_t, ggml_backend_event_t) {}

// the backend: nothing runs

static const char * backend_name(ggml_backend_t backend) { return device_name(backend->device); }
static void free_backend(ggml_backend_t backend) { delete backend; }
static void wait_backend(ggml_backend_t) {}
static enum ggml_status compute_nothing(ggml_backend_t, ggml_cgraph *) { return GGML_STATUS_SUCCESS; }
static void wait_event(ggml_backend_t, ggml_backend_event_t) {}
static uint8_t guid[16] = "a stand-in card";

static ggml_backend_t new_backend(ggml_backend_dev_t dev, const char *) {
    ggml_backend_i calls = {};
    calls.get_name      = backend_name;
    calls.free          = free_backend;
    calls.synchronize   = wait_backend;
    calls.graph_compute = compute_nothing;
    calls.event_record  = wait_event;
    calls.event_wait    = wait_event;
    return new ggml_backend { &guid, calls, dev, nullptr };
}

static const char * registry_name(ggml_backend_reg_t) { return "CARD"; }
static size_t registry_count(ggml_backend_reg_t) { return count; }
static ggml_backend_dev_t registry_device(ggml_backend_reg_t, size_t i) { return &devices[i]; }
static void * no_address(ggml_backend_reg_t, const char *) { return nullptr; }

// `2` are two of 4 TiB, `24+12` two of so many GiB
static void register_cards(const std::string & asked) {
    for (size_t at = 0; at < asked.size() && count < MOST; count++) {
        const size_t end = std::min(asked.find('+', at), asked.size());
        sizes[count] = (size_t) (atof(asked.substr(at, end - at).c_str()) * 1024) << 20;
        at = end + 1;
    }
    if (asked.find('+') == std::string::npos) {
        count = atoi(asked.c_str());
        for (size_t & size : sizes) size = (size_t) 1 << 42;
    }
    const ggml_backend_reg_i calls = { registry_name, registry_count, registry_device, no_address };
    registry = { GGML_BACKEND_API_VERSION, calls, nullptr };
    for (int i = 0; i < count; i++) {
        names[i] = "Card" + std::to_string(i);
        devices[i].iface = { device_name, device_name, device_memory, device_type, device_props,
            new_backend, device_buffers, host_buffers, nullptr, takes, takes_buffer, takes_from_ram,
            new_event, free_event, wait_device };
        devices[i].reg = &registry;
        types[i].iface = { type_name, alloc_nothing, alignment, nullptr, alloc_size, nullptr };
        types[i].device = &devices[i];
    }
    host = *ggml_backend_cpu_buffer_type();
    host.iface.get_name = host_name;
    host.device = &devices[0];
    ggml_backend_register(&registry);
}

static ggml_type type_of(const std::string & name) {
    for (int i = 0; i < GGML_TYPE_COUNT; i++) {
        const char * known = ggml_type_name((ggml_type) i);
        if (known && name == known) return (ggml_type) i;
    }
    fprintf(stderr, "no type '%s'\n", name.c_str());
    exit(2);
}

static void print_log(ggml_log_level level, const char * text, void *) {
    if (level != GGML_LOG_LEVEL_DEBUG || strstr(text, "assigned to device")) fputs(text, stdout);
}

int main(int argc, char ** argv) {
    if (argc != 11) {
        fprintf(stderr, "dry_run MODEL.gguf DEVICES CONTEXT UBATCH SEQUENCES UNIFIED"
            " CACHE_TYPE FLASH OUTPUTS EXPERTS\n");
        return 2;
    }
    llama_log_set(print_log, nullptr);
    const std::string cards = argv[2];
    if (cards != "0") register_cards(cards);

    llama_model_params of_model = llama_model_default_params();
    of_model.no_alloc  = true;
    of_model.load_mode = LLAMA_LOAD_MODE_NONE;
    of_model.use_extra_bufts = false;
    of_model.n_gpu_layers = count > 0 ? 999 : 0;
    const llama_model_tensor_buft_override in_ram[] = {
        { "\\.ffn_(up|down|gate|gate_up)_(ch|)exps", ggml_backend_cpu_buffer_type() }, { nullptr, nullptr } };
    if (std::string(argv[10]) == "ram") of_model.tensor_buft_overrides = in_ram;

    llama_context_params of_context = llama_context_default_params();
    of_context.n_ctx      = atoi(argv[3]);
    of_context.n_ubatch   = atoi(argv[4]);
    of_context.n_batch    = of_context.n_ubatch > 2048 ? of_context.n_ubatch : 2048;
    of_context.n_seq_max  = atoi(argv[5]);
    of_context.kv_unified = atoi(argv[6]) != 0;
    of_context.swa_full   = false;
    of_context.type_k = of_context.type_v = type_of(argv[7]);
    const std::string flash = argv[8];
    of_context.flash_attn_type = flash == "off" ? LLAMA_FLASH_ATTN_TYPE_DISABLED
        : flash == "on" ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_AUTO;
    of_context.n_outputs_max = atoi(argv[9]);

    llama_model * model = llama_model_load_from_file(argv[1], of_model);
    if (!model) return 1;
    llama_context * context = llama_init_from_model(model, of_context);
    if (!context) return 1;
    for (const auto & [buft, bytes] : llama_get_memory_breakdown(context)) {
        printf("bytes %s %d %zu %zu %zu\n", ggml_backend_buft_name(buft), ggml_backend_buft_is_host(buft),
            bytes.model, bytes.context, bytes.compute);
    }
    fflush(stdout);
    _Exit(0);
}
