#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ulmus::optim {

/// Changes the treatment of the parameters whose name matches; of several rules the first counts.
struct GroupRule {
  std::string match;                     ///< `*` stands for any characters: "*.router.*"
  double lr_scale = 1.0;                 ///< multiplies the learning rate
  std::optional<double> weight_decay{};  ///< instead of optim.weight_decay
  friend bool operator==(const GroupRule&, const GroupRule&) = default;
};

struct ParameterGroup {
  double lr_scale = 1.0;
  double weight_decay = 0.0;
  friend bool operator==(const ParameterGroup&, const ParameterGroup&) = default;
};

/// Whole-name match where `*` stands for any characters.
bool glob_matches(std::string_view pattern, std::string_view name);

/// Norm weights and the embedding, which decay only when a rule says so.
bool decays_by_default(std::string_view name);

/// The group of each parameter. InputError naming a rule that matches no parameter.
std::vector<ParameterGroup> assign_groups(std::span<const std::string> names,
                                          std::span<const GroupRule> rules, double weight_decay);

/// Parameters that are treated alike, for the table printed at start.
struct GroupSummary {
  ParameterGroup group;
  std::int64_t tensors = 0;
  std::int64_t elements = 0;
  std::string example;  ///< the first of their names
};

/// One line for each distinct treatment, in the order of their first parameters. `elements` of each
/// parameter, beside `names` and `groups`.
std::vector<GroupSummary> summarize(std::span<const std::string> names,
                                    std::span<const std::int64_t> elements,
                                    std::span<const ParameterGroup> groups);

}  // namespace ulmus::optim
