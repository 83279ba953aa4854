#pragma once

#include <string>

#include "ulmus/base/error.h"

namespace ulmus::test {

/// The message of the exception that `body` throws; empty when it throws none. An exception of
/// another kind fails the test.
template <class Exception = InputError, class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace ulmus::test
