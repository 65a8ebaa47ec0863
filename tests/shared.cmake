# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Sources that many test programs have are compiled once: for each of them anew it was a fifth of what a build takes.

# mv_share(FILE ... [WITH LIBRARY ...] [IN DIRECTORY ...]): these are such; what they include is found by the libraries, and there.
# No two of them have the same name.
function(mv_share)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "WITH;IN")
  foreach(file IN LISTS arg_UNPARSED_ARGUMENTS)
    get_filename_component(name ${file} NAME)
    add_library(shared-${name} OBJECT ${file})
    target_link_libraries(shared-${name} PRIVATE testlib meshverbs PkgConfig::IBVERBS PkgConfig::CMOCKA ${arg_WITH})
    target_include_directories(shared-${name} PRIVATE ${arg_IN})
  endforeach()
endfunction()

# mv_with_shared(RET FILE ...): for add_executable(), the objects of those that are shared in place of them. Those are named without
# a folder.
function(mv_with_shared ret)
  set(sources)
  foreach(file IN LISTS ARGN)
    if(TARGET shared-${file})
      list(APPEND sources $<TARGET_OBJECTS:shared-${file}>)
    else()
      list(APPEND sources ${file})
    endif()
  endforeach()
  set(${ret} ${sources} PARENT_SCOPE)
endfunction()
