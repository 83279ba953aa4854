#include "ulmus/optim/param_groups.h"

#include <algorithm>

#include "ulmus/base/check.h"
#include "ulmus/base/error.h"

namespace ulmus::optim {

bool glob_matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;
  std::size_t retry = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++retry;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*')
    ++p;
  return p == pattern.size();
}

bool decays_by_default(std::string_view name) {
  return !(glob_matches("*norm.weight", name) || name == "embedding.weight");
}

std::vector<ParameterGroup> assign_groups(std::span<const std::string> names,
                                          std::span<const GroupRule> rules, double weight_decay) {
  std::vector<ParameterGroup> groups;
  std::vector<bool> used(rules.size(), false);
  for (const std::string& name : names) {
    ParameterGroup group = {.lr_scale = 1.0,
                            .weight_decay = decays_by_default(name) ? weight_decay : 0.0};
    for (std::size_t r = 0; r < rules.size(); ++r) {
      if (!glob_matches(rules[r].match, name)) continue;
      used[r] = true;
      group.lr_scale = rules[r].lr_scale;
      group.weight_decay = rules[r].weight_decay.value_or(group.weight_decay);
      break;
    }
    groups.push_back(group);
  }
  for (std::size_t r = 0; r < rules.size(); ++r) {
    if (!used[r]) {
      fail_input("optim.groups: \"", rules[r].match,
                 "\" matches no parameter that an earlier group has not taken");
    }
  }
  return groups;
}

std::vector<GroupSummary> summarize(std::span<const std::string> names,
                                    std::span<const std::int64_t> elements,
                                    std::span<const ParameterGroup> groups) {
  ULMUS_CHECK(names.size() == elements.size() && names.size() == groups.size(), names.size(),
              " names, ", elements.size(), " sizes, ", groups.size(), " groups");
  std::vector<GroupSummary> lines;
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto line = std::find_if(lines.begin(), lines.end(),
                             [&](const GroupSummary& known) { return known.group == groups[i]; });
    if (line == lines.end()) {
      line = lines.insert(lines.end(), {.group = groups[i], .example = names[i]});
    }
    ++line->tensors;
    line->elements += elements[i];
  }
  return lines;
}

}  // namespace ulmus::optim
