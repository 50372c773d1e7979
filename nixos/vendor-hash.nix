"sha256-ehG1xA4vjDFFsrtih4BH2m0rZWUMnU0Jq+rap6PZnQM="
