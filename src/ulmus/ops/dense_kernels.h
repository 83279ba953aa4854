#pragma once

#include "ulmus/ops/attention.h"
#include "ulmus/ops/elementwise.h"
#include "ulmus/ops/embedding.h"
#include "ulmus/ops/head_loss.h"
#include "ulmus/ops/initialize.h"
#include "ulmus/ops/kernel_slot.h"
#include "ulmus/ops/matmul.h"
#include "ulmus/ops/rms_norm.h"
#include "ulmus/ops/rope.h"
#include "ulmus/ops/swiglu.h"

namespace ulmus::ops {

struct DenseKernels {
  KernelSlot<FillArgs> fill{"fill"};
  KernelSlot<CopyArgs> copy{"copy"};
  KernelSlot<AddArgs> add{"add"};
  KernelSlot<InitializeArgs> initialize_truncated_normal{"initialize_truncated_normal"};
  KernelSlot<MatmulArgs> matmul{"matmul"};
  KernelSlot<EmbeddingForwardArgs> embedding_forward{"embedding_forward"};
  KernelSlot<EmbeddingBackwardArgs> embedding_backward{"embedding_backward"};
  KernelSlot<RmsNormForwardArgs> rms_norm_forward{"rms_norm_forward"};
  KernelSlot<RmsNormBackwardArgs> rms_norm_backward{"rms_norm_backward"};
  KernelSlot<RopeArgs> rope{"rope"};
  KernelSlot<AttentionForwardArgs> attention_forward{"attention_forward"};
  KernelSlot<AttentionBackwardArgs> attention_backward{"attention_backward"};
  KernelSlot<SwigluForwardArgs> swiglu_forward{"swiglu_forward"};
  KernelSlot<SwigluBackwardArgs> swiglu_backward{"swiglu_backward"};
  KernelSlot<HeadLossArgs> head_loss{"head_loss"};
};

}  // namespace ulmus::ops
