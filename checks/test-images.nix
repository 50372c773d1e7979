# The images that suites use besides the language images, as checks/guest/testimages.go makes them: one with a shell and the
# usual tools, one that declares everything an image could try to have its way with, and the same without a volume, for which alone
# an image is refused.
{ pkgs }:
let
  build =
    name: config:
    pkgs.dockerTools.buildLayeredImage {
      name = "evalhost-${name}";
      tag = "local";
      contents = [
        (pkgs.busybox.override { enableStatic = true; })
      ]
      ++ import ../langimages/names.nix { inherit pkgs; };
      created = "1970-01-01T00:00:01Z";
      mtime = "1970-01-01T00:00:01Z";
      compressor = "none";
      fakeRootCommands = ''
        mkdir -p proc sys dev usr/bin tmp out
        chmod 1777 tmp
        chown 65534:65534 out
      '';
      inherit config;
    };
  path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
in
{
  "evalhost/test-busybox:local" = build "test-busybox" {
    Env = [ path ];
    Cmd = [ "/bin/true" ];
  };
  "evalhost/test-wilful:local" = build "test-wilful" {
    Env = [
      path
      "LD_PRELOAD=/evil.so"
    ];
    Entrypoint = [
      "/bin/echo"
      "the image's own entry point ran"
    ];
    Cmd = [ "the image's own command" ];
    Healthcheck = {
      Test = [
        "CMD-SHELL"
        "echo healthy >>/dev/shm/health"
      ];
      Interval = 1000000000;
    };
  };
  "evalhost/test-hostile:local" = build "test-hostile" {
    Env = [
      path
      "LD_PRELOAD=/evil.so"
    ];
    Entrypoint = [
      "/bin/echo"
      "the image's own entry point ran"
    ];
    Cmd = [ "the image's own command" ];
    Volumes."/data" = { };
    Healthcheck = {
      Test = [
        "CMD-SHELL"
        "echo healthy >>/data/health"
      ];
      Interval = 1000000000;
    };
  };
}
