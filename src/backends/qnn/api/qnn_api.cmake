# The library layer of the QNN back end: declarations, loading, wrappers. Belongs to both halves: lowering and execution
# are built on it. Qualcomm's libraries are not linked; they are loaded at run time.
tandem_module(qnn_api DIRS backends/qnn/api DEPENDS tandem_base tandem_ir xxhash_header ${CMAKE_DL_LIBS})
