#pragma once

/// The whole room: saving (writer.h), loading and looking (reader.h), the folder of checkpoints
/// (folder.h). The bytes are described in docs/formats/checkpoint.md.
#include "ulmus/checkpoint/folder.h"
#include "ulmus/checkpoint/manifest.h"
#include "ulmus/checkpoint/reader.h"
#include "ulmus/checkpoint/tensor_ref.h"
#include "ulmus/checkpoint/writer.h"
