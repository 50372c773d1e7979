# A suite that the guest without Nix runs, on the NixOS host: the same test binary, as root.
{ suite, cgroupDriver }:
{
  host,
  hostPkgs,
  lib,
  programs,
  ...
}:
let
  images = import ./test-images.nix { pkgs = hostPkgs; };
  load = reference: image: ''
    judge.succeed("docker image load --quiet --input ${image}")
    judge.succeed("docker image tag ${image.imageName}:${image.imageTag} ${reference}")
  '';
in
{
  nodes.judge = {
    imports = [ host ];
    services.evalhost = {
      docker = {
        inherit cgroupDriver;
      };
      languages = null;
    };
    virtualisation.memorySize = 8192;
  };

  testScript = ''
    judge.wait_for_unit("evalhost-images.service")
    judge.succeed("evalhost check")
    # The suites have Runners of their own, and two never share a processor.
    judge.execute("systemctl stop evalhost-runner.service")
    # They count the processes and cgroups of the machine; what comes by itself every five minutes is none of their doing.
    judge.succeed("systemctl stop evalhost-egress.timer systemd-tmpfiles-clean.timer")
    # One of them puts programs and settings of its own where the store's are: links, on a file system that takes writes.
    judge.succeed("rm -f /usr/lib/evalhost /etc/evalhost/runner.env")
    # Their programs know machines as most are, and attack them there.
    judge.succeed("sh ${./lay-out.sh}")
    judge.succeed("mountpoint -q /proc/sys/fs/binfmt_misc || mount -t binfmt_misc none /proc/sys/fs/binfmt_misc")
    ${lib.concatStrings (lib.mapAttrsToList load images)}
    # What is mounted into containers must be on a file system of the host's own, not on the shared store.
    judge.succeed("mkdir -p /opt/evalhost/bin && cp -r ${programs.suites}/* /opt/evalhost/")
    judge.succeed("cp ${lib.getExe programs.evalhost} ${lib.getExe programs.shim} /opt/evalhost/bin/")
    judge.succeed("cp ${lib.getExe programs.runner} ${lib.getExe programs.refserver} /opt/evalhost/bin/")
    # The machine is there to be ruined, and is gone afterwards.
    status, output = judge.execute(
        "cd /opt/evalhost/suites && EVALHOST_DESTRUCTIVE_HERE=1 EVALHOST_TEST_EVERYTHING=1"
        + " EVALHOST_BIN=/opt/evalhost/bin/evalhost EVALHOST_TEST_RUNNER=/opt/evalhost/bin/evalhost-runner"
        + " EVALHOST_TEST_SHIM=/opt/evalhost/bin/aj-shim EVALHOST_TEST_EXAMPLES=/opt/evalhost/examples"
        + " EVALHOST_TEST_PROGRAMS=/opt/evalhost/programs/${suite} EVALHOST_TEST_VARIANT=${cgroupDriver}"
        + " ./${suite}.test -test.v -test.timeout=40m"
        + " -test.run=\"^($(paste -s -d '|' ${suite}.tests))$\" 2>&1",
        timeout=2460,
    )
    print(output)
    assert status == 0, "the suite ended with status " + str(status)
    # A skip says that the machine lacks something, and this one is declared to lack nothing. That a driver does without
    # the bus is no lack.
    skipped, meant = output.count("--- SKIP"), output.count("SKIPPED: cgroupfs needs no bus")
    assert skipped == meant, "tests were skipped"
  '';
}
