# For a tap. packaging/release.sh writes the URL and checksum of the version into the copy for a release.
class Peeklock < Formula
  desc "Durable message broker that speaks Azure Service Bus"
  homepage "https://github.com/OWNER/peeklock"
  url "https://github.com/OWNER/peeklock/archive/refs/tags/v0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license any_of: ["Apache-2.0", "MIT"]

  depends_on "rust" => :build

  def install
    system "cargo", "install", *std_cargo_args(path: "crates/peeklock")
    (etc/"peeklock").install "packaging/config/peeklock.toml"
    doc.install "config/peeklock.toml"
  end

  service do
    run [opt_bin/"peeklock", "serve", "--config", etc/"peeklock/peeklock.toml", "--data-dir", var/"peeklock"]
    keep_alive crashed: true
    log_path var/"log/peeklock.log"
    error_log_path var/"log/peeklock.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/peeklock --version")
    (testpath/"p.toml").write "[[queues]]\nname = \"orders\"\n"
    assert_match "queues declared: 1", shell_output("#{bin}/peeklock config check p.toml")
  end
end
