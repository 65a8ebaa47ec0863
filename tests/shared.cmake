# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Sources that many test programs have are compiled once: for each of them anew it was a fifth of what a build takes.
function(shared_name ret file)
  get_filename_component(path ${file} ABSOLUTE)
  file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR}/tests ${path})
  string(MAKE_C_IDENTIFIER shared-${path} name)
  set(${ret} ${name} PARENT_SCOPE)
endfunction()

# mv_share(FILE ... [WITH LIBRARY ...] [IN DIRECTORY ...]): these are such; what they include is found by the libraries, and there.
function(mv_share)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "WITH;IN")
  foreach(file IN LISTS arg_UNPARSED_ARGUMENTS)
    shared_name(name ${file})
    add_library(${name} OBJECT ${file})
    target_link_libraries(${name} PRIVATE meshverbs PkgConfig::IBVERBS PkgConfig::CMOCKA ${arg_WITH})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/unit ${arg_IN})
  endforeach()
endfunction()

# mv_with_shared(RET FILE ...): for add_executable(), the objects of those that are shared in place of them.
function(mv_with_shared ret)
  set(sources)
  foreach(file IN LISTS ARGN)
    shared_name(name ${file})
    if(TARGET ${name})
      list(APPEND sources $<TARGET_OBJECTS:${name}>)
    else()
      list(APPEND sources ${file})
    endif()
  endforeach()
  set(${ret} ${sources} PARENT_SCOPE)
endfunction()
