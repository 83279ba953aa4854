#include "tests/data/pcre2_oracle.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdexcept>

namespace ulmus::data {

namespace {

constexpr std::size_t kNoMatch = static_cast<std::size_t>(-1);

pcre2_code* as_code(void* code) { return static_cast<pcre2_code*>(code); }
pcre2_match_data* as_match(void* data) { return static_cast<pcre2_match_data*>(data); }

}  // namespace

Pcre2Pattern::Pcre2Pattern(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                        PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code_ == nullptr) throw std::runtime_error("PCRE2 refuses " + pattern);
  match_data_ = pcre2_match_data_create_from_pattern(as_code(code_), nullptr);
}

Pcre2Pattern::~Pcre2Pattern() {
  pcre2_match_data_free(as_match(match_data_));
  pcre2_code_free(as_code(code_));
}

std::size_t Pcre2Pattern::match_end(std::string_view text, std::size_t begin) const {
  const int count =
      pcre2_match(as_code(code_), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), begin,
                  begin > 0 ? PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK : PCRE2_ANCHORED,
                  as_match(match_data_), nullptr);
  if (count < 1) return kNoMatch;
  return pcre2_get_ovector_pointer(as_match(match_data_))[1];
}

std::vector<std::size_t> Pcre2Pattern::cuts(std::string_view text) const {
  std::vector<std::size_t> ends;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = match_end(text, begin);
    if (end == kNoMatch || end == begin) throw std::runtime_error("the oracle left a gap");
    ends.push_back(end);
    begin = end;
  }
  return ends;
}

bool Pcre2Pattern::matches(std::string_view text) const {
  return match_end(text, 0) == text.size();
}

}  // namespace ulmus::data
