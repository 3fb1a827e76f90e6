// Deploys into a folder of this machine. What the folder has is replaced only where an earlier deployment wrote it, as
// its manifest says; each file appears whole or not at all.
#pragma once

#include <filesystem>

#include "deploy/deploy_plan.h"
#include "tandem/status.h"

namespace tandem {

// The folder is created if only its parent is there. A stopped deployment leaves whole files and a manifest that says
// so; the same call continues it.
Result<DeployReport> deploy_to_folder(const DeployPlan& plan, const std::filesystem::path& folder,
                                      const DeployOptions& options);

// Files of an earlier deployment that this one does not have. Sorted.
std::vector<const ManifestFile*> files_left_over(const Manifest& earlier, const DeployPlan& plan);
// The manifest while files are replaced: what was there, and what shall be.
Manifest manifest_in_progress(const Manifest& earlier, const DeployPlan& plan);

}  // namespace tandem
