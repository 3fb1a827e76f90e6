# The schema's C++ header is generated into the build folder.
set(ARTIFACT_GENERATED ${PROJECT_BINARY_DIR}/generated)
add_custom_command(
  OUTPUT ${ARTIFACT_GENERATED}/artifact_generated.h
  COMMAND ${FLATC} --cpp --scoped-enums --gen-object-api -o ${ARTIFACT_GENERATED} ${PROJECT_SOURCE_DIR}/src/artifact/artifact.fbs
  DEPENDS ${PROJECT_SOURCE_DIR}/src/artifact/artifact.fbs
  COMMENT "Generating the artifact schema's header")
add_custom_target(tandem_artifact_schema DEPENDS ${ARTIFACT_GENERATED}/artifact_generated.h)
