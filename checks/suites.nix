# The suites that the guest without Nix runs, on the NixOS host: the same test binaries, as root.
{ cgroupDriver }:
{
  host,
  lib,
  programs,
  ...
}:
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
    # What is mounted into containers must be on a file system of the host's own, not on the shared store.
    judge.succeed("mkdir -p /opt/evalhost && cp -r ${programs.suites}/suites ${programs.suites}/programs /opt/evalhost/")
    failed = []
    for name in ${builtins.toJSON programs.suites.names}:
        with subtest(name):
            status, output = judge.execute(
                "cd /opt/evalhost/suites"
                + " && EVALHOST_BIN=${lib.getExe programs.evalhost} EVALHOST_TEST_SHIM=${lib.getExe programs.shim}"
                + f" EVALHOST_TEST_PROGRAMS=/opt/evalhost/programs/{name} EVALHOST_TEST_VARIANT=${cgroupDriver}"
                + f" ./{name}.test -test.v -test.timeout=40m 2>&1",
                timeout=2460,
            )
            print(output)
            if status != 0:
                failed.append(name)
    assert not failed, f"failed: {failed}"
  '';
}
