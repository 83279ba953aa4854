#pragma once

/// The whole room: saving (writer.h), loading (reader.h), looking (verify.h, show.h), the folder of
/// checkpoints (folder.h). The bytes are described in docs/formats/checkpoint.md.
#include "ulmus/checkpoint/folder.h"
#include "ulmus/checkpoint/manifest.h"
#include "ulmus/checkpoint/reader.h"
#include "ulmus/checkpoint/show.h"
#include "ulmus/checkpoint/tensor_ref.h"
#include "ulmus/checkpoint/verify.h"
#include "ulmus/checkpoint/writer.h"
