# The suites that run in the guest without Nix, on the NixOS host: the same test binaries, as root.
{ cgroupDriver }:
{ host, programs, ... }:
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
    suites = "${programs.suites}/lib/evalhost/suites"
    names = judge.succeed(f"cat {suites}/list").split()
    failed = []
    for name in names:
        with subtest(name):
            # A test binary looks for its test data beside itself, and finds out about the host by itself.
            status, output = judge.execute(
                f"cd {suites}/{name} && EVALHOST_DESTRUCTIVE_HERE=1 ./suite.test -test.v -test.timeout 30m 2>&1",
                timeout=1900,
            )
            print(output)
            if status != 0:
                failed.append(name)
    assert not failed, f"failed: {failed}"
  '';
}
