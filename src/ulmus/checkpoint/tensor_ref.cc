#include "ulmus/checkpoint/tensor_ref.h"

namespace ulmus::checkpoint {

std::string file_group_of(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  const bool is_moment = name.ends_with(kFirstMomentSuffix) || name.ends_with(kSecondMomentSuffix);
  const std::string_view suffix = is_moment ? ".optimizer" : "";
  std::string group;
  if (name.starts_with(kLayers)) {
    const std::string_view rest = name.substr(kLayers.size());
    const std::string_view layer = rest.substr(0, rest.find('.'));
    group = "layer-";
    if (layer.size() == 1) group += '0';
    group += layer;
  } else {
    group = name.substr(0, name.find('.'));
  }
  return group.append(suffix);
}

}  // namespace ulmus::checkpoint
