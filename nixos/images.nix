# The language images: from the store into Docker at boot, compared with what was built, and nothing else beside them.
{
  config,
  lib,
  pkgs,
  ...
}:
let
  inherit (lib) mkOption types;
  cfg = config.services.evalhost;
  our = import ./lib.nix { inherit lib; };
  languages = import ../langimages { inherit pkgs; };
  keys = languages.keysFor cfg.languages;

  load = pkgs.writeShellApplication {
    name = "evalhost-load-images";
    runtimeInputs = [
      config.virtualisation.docker.package
      pkgs.coreutils
      pkgs.jq
    ];
    text = builtins.readFile ./load-images.sh;
  };
in
{
  options.services.evalhost.images = {
    archives = mkOption {
      type = types.attrsOf types.package;
      default = lib.genAttrs keys (key: languages.images.${key});
      defaultText = lib.literalMD "the images of what `languages` offers";
      example = lib.literalExpression "{ gcc = inputs.evalhost.packages.x86_64-linux.image-gcc; }";
      description = "The images as archives that Docker can load, by their key in `langimages/toolchains.json`.";
    };
    manifest = mkOption {
      type = types.path;
      default = languages.manifest keys;
      defaultText = lib.literalMD "what was built: layers and configuration of every archive";
      example = lib.literalExpression "./images.json";
      description = ''
        What each image must be. An image that Docker holds and that differs in a layer, or in a part of the
        configuration that has a say in a run, is not judged with.
      '';
    };
  };

  config = lib.mkIf cfg.enable {
    environment.etc."evalhost/images.json".source = cfg.images.manifest;

    systemd.services.evalhost-images = {
      description = "Load the language images and compare them with what was built";
      # Fails closed: the daemon that judges requires this unit, and does not start when an image is another.
      # Docker is not required: that would stop the daemon with every restart of Docker, and it outlives those. Without
      # Docker nothing can be loaded, which fails as well.
      wants = [ "docker.service" ];
      after = [ "docker.service" ];
      before = [ "evalhost-runner.service" ];
      requiredBy = [ "evalhost-runner.service" ];
      wantedBy = [ "multi-user.target" ];
      # Docker's command looks for settings of its own in a home that this unit does not see.
      environment.DOCKER_CONFIG = "/var/empty";
      serviceConfig = our.confined // {
        Type = "oneshot";
        RemainAfterExit = true;
        ExecStart = lib.escapeShellArgs (
          [
            (lib.getExe load)
            "${cfg.images.manifest}"
          ]
          ++ lib.mapAttrsToList (key: archive: "${key}=${archive}") cfg.images.archives
        );
        # It speaks to Docker's socket and to nothing else.
        PrivateDevices = true;
        ProtectClock = true;
        PrivateNetwork = true;
        PrivateTmp = true;
        RestrictAddressFamilies = [ "AF_UNIX" ];
        TimeoutStartSec = "10min";
        # A Docker that comes late must not leave the host dead. What did not start because of this unit starts after it.
        Restart = "on-failure";
        RestartSec = "30s";
        ExecStartPost = "-${config.systemd.package}/bin/systemctl --no-block start evalhost-runner.service";
      };
    };
  };
}
