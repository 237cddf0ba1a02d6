// A GPU that computes nothing, in place of NVIDIA's driver and runtime (libcuda.so.1 and libcudart.so.13), for tests of what TVM and
// Tuneboard make of its answers. Its memory is the host's, a kernel takes a moment, and errors are CUDA's own.
//
// The folder $STAND_IN_GPU has its state: `loads` grows by a byte for each module that is loaded, and `plan` says what happens to the
// kernels of some of them, in lines such as `2 illegal`. What stands there as `0 …` happens always.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, ILLEGAL_ADDRESS = 700, LAUNCH_FAILURE = 719 };

static int broken = OK;  // As in a real one, an error of a kernel stays: every later call of this process fails with it.

static FILE* state(const char* name, const char* mode) {
  char path[4096];
  const char* folder = getenv("STAND_IN_GPU");
  snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", name);
  return fopen(path, mode);
}

static int planned(int load, const char* what) {
  char kind[32];
  int of, found = 0;
  FILE* plan = state("plan", "r");
  if (!plan) return 0;
  while (fscanf(plan, "%d %31s", &of, kind) == 2) found |= of == load && !strcmp(kind, what);
  fclose(plan);
  return found;
}

static double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static const char* name_of(int error) {
  switch (error) {
    case OK: return "cudaSuccess";
    case OUT_OF_MEMORY: return "cudaErrorMemoryAllocation";
    case NO_DEVICE: return "cudaErrorNoDevice";
    case ILLEGAL_ADDRESS: return "cudaErrorIllegalAddress";
    case LAUNCH_FAILURE: return "cudaErrorLaunchFailure";
    default: return "cudaErrorInvalidValue";
  }
}

static const char* text_of(int error) {
  switch (error) {
    case OK: return "no error";
    case OUT_OF_MEMORY: return "out of memory";
    case NO_DEVICE: return "no CUDA-capable device is detected";
    case ILLEGAL_ADDRESS: return "an illegal memory access was encountered";
    case LAUNCH_FAILURE: return "unspecified launch failure";
    default: return "invalid argument";
  }
}

#ifdef DRIVER

int cuDeviceGetName(char* name, int size, int device) { snprintf(name, size, "Stand-in"); return OK; }
int cuGetErrorName(int error, const char** name) { *name = name_of(error); return OK; }
int cuGetErrorString(int error, const char** text) { *text = text_of(error); return OK; }
int cuTensorMapEncodeTiled(void) { return INVALID_VALUE; }
int cuFuncSetAttribute(void* function, int attribute, int value) { return OK; }
int cuModuleUnload(void* module) { free(module); return OK; }

int cuModuleLoadData(void** module, const void* image) {
  FILE* loads = state("loads", "ab");
  int* number = malloc(sizeof(int));
  struct stat info = {0};
  if (loads) {
    fputc('x', loads);
    fflush(loads);
    fstat(fileno(loads), &info);
    fclose(loads);
  }
  *number = (int)info.st_size;
  *module = number;
  return OK;
}

int cuModuleGetFunction(void** function, void* module, const char* name) { *function = module; return OK; }

extern void stand_in_breaks(int error);

int cuLaunchKernelEx(const void* config, void* function, void** arguments, void** extra) {
  int load = *(int*)function;
  if (planned(load, "crash")) abort();
  if (planned(load, "hang")) sleep(600);
  if (planned(load, "illegal")) stand_in_breaks(ILLEGAL_ADDRESS);
  if (planned(load, "failure")) stand_in_breaks(LAUNCH_FAILURE);
  usleep(50);
  return OK;  // Real ones return before the kernel ends, too.
}

#else

void stand_in_breaks(int error) { broken = error; }

int cudaGetDeviceCount(int* count) {
  *count = planned(0, "absent") ? 0 : 1;
  return *count ? OK : NO_DEVICE;
}

// Of compute capability 8.0, by which TVM compiles. 75 and 76 are cudaDevAttrComputeCapabilityMajor and Minor.
int cudaDeviceGetAttribute(int* value, int attribute, int device) { *value = attribute == 75 ? 8 : attribute == 76 ? 0 : 1; return OK; }
int cudaGetDeviceProperties(void* properties, int device) { return INVALID_VALUE; }
int cudaGetDevice(int* device) { *device = 0; return broken; }
int cudaSetDevice(int device) { return planned(0, "absent") ? NO_DEVICE : broken; }
int cudaGetLastError(void) { return broken; }
int cudaPeekAtLastError(void) { return broken; }
const char* cudaGetErrorName(int error) { return name_of(error); }
const char* cudaGetErrorString(int error) { return text_of(error); }

int cudaMalloc(void** data, size_t size) {
  if (broken) return broken;
  if (planned(0, "full")) return OUT_OF_MEMORY;
  *data = aligned_alloc(256, (size + 255) / 256 * 256);
  return OK;
}

int cudaMallocHost(void** data, size_t size) { return cudaMalloc(data, size); }
int cudaFree(void* data) { free(data); return broken; }
int cudaFreeHost(void* data) { free(data); return broken; }
int cudaMemGetInfo(size_t* left, size_t* total) { *left = *total = (size_t)1 << 30; return broken; }

int cudaMemcpyAsync(void* to, const void* from, size_t size, int kind, void* stream) {
  if (!broken) memcpy(to, from, size);
  return broken;
}

int cudaMemcpyPeerAsync(void* to, int device, const void* from, int other, size_t size, void* stream) {
  return cudaMemcpyAsync(to, from, size, 0, stream);
}

int cudaEventCreate(void** event) { *event = calloc(1, sizeof(double)); return broken; }
int cudaEventDestroy(void* event) { free(event); return broken; }
int cudaEventRecord(void* event, void* stream) { *(double*)event = now_ms(); return broken; }
int cudaEventSynchronize(void* event) { return broken; }

int cudaEventElapsedTime(float* ms, void* start, void* end) {
  *ms = (float)(*(double*)end - *(double*)start);
  return broken;
}

int cudaStreamCreate(void** stream) { *stream = NULL; return broken; }
int cudaStreamCreateWithFlags(void** stream, unsigned flags) { *stream = NULL; return broken; }
int cudaStreamDestroy(void* stream) { return broken; }
int cudaStreamSynchronize(void* stream) { return broken; }
int cudaStreamWaitEvent(void* stream, void* event, unsigned flags) { return broken; }
int cudaStreamBeginCapture(void* stream, int mode) { return INVALID_VALUE; }
int cudaStreamEndCapture(void* stream, void** graph) { return INVALID_VALUE; }
int cudaGraphDestroy(void* graph) { return INVALID_VALUE; }
int cudaGraphExecDestroy(void* exec) { return INVALID_VALUE; }
int cudaGraphInstantiate(void** exec, void* graph, unsigned long long flags) { return INVALID_VALUE; }
int cudaGraphLaunch(void* exec, void* stream) { return INVALID_VALUE; }

#endif
