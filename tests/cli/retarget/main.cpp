// Writes a compiled file again as if it were for an NPU: what `tandem deploy` needs of one is its header.
//   retarget FILE OUTPUT BACKEND TARGET HEXAGON BUILD_ID
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "artifact/reader.h"
#include "artifact/writer.h"

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  const auto artifact = tandem::Artifact::open(argv[1]);
  if (!artifact.ok()) return std::fprintf(stderr, "%s\n", artifact.error().message.c_str()), 1;
  tandem::ArtifactHeader header = artifact->header();
  std::vector<tandem::SegmentFile> segments;
  for (size_t i = 0; i < header.segments.size(); ++i) {
    const std::string path = std::string(argv[2]) + ".segment" + std::to_string(i);
    const auto bytes = artifact->segment_bytes(i);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    segments.push_back({header.segments[i].name, path, header.segments[i].hash});
  }
  header.backend = argv[3];
  header.target = argv[4];
  header.device = {.soc_model = 69,
                   .arch = std::atoi(argv[5]),
                   .vtcm_mb = 8,
                   .weight_shared = false,
                   .core_version = "2.40.0",
                   .backend_version = "5.51.0",
                   .build_id = argv[6],
                   .spill_fill_bytes = 0};
  header.shards = {{"layers", {0, 0, 64}, 1, {{"decode", "decode", 1}}}};
  const tandem::Status written = tandem::write_artifact(argv[2], header, segments);
  for (const auto& segment : segments) std::remove(segment.path.c_str());
  if (!written.ok()) return std::fprintf(stderr, "%s\n", written.error().message.c_str()), 1;
  return 0;
}
