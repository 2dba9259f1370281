// Peeklock against the official Go SDK: each test talks to one daemon, started here.
package peeklock

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// What the daemon writes once it accepts connections.
type readyFile struct {
	ConnectionString    string `json:"connection_string"`
	TLSConnectionString string `json:"connection_string_tls"`
	CAFile              string `json:"ca_file"`
}

var ready readyFile

// How long anything may take; on a busy machine as well.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	code, err := withDaemon(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withDaemon(run func() int) (int, error) {
	binary := os.Getenv("PEEKLOCK_BIN")
	if binary == "" {
		return 1, fmt.Errorf("PEEKLOCK_BIN must name the daemon; ./test.sh go sets it")
	}
	directory, err := os.MkdirTemp("", "peeklock-go-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(directory)
	path := filepath.Join(directory, "ready.json")
	daemon := exec.Command(binary, "serve", "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0",
		"--data-dir", filepath.Join(directory, "data"), "--ready-file", path, "--log-level", "warn", "--queue", "unused")
	daemon.Stderr = os.Stderr
	if err := daemon.Start(); err != nil {
		return 1, err
	}
	exited := make(chan error, 1)
	go func() { exited <- daemon.Wait() }()
	if ready, err = waitForReady(path, exited); err != nil {
		return 1, err
	}
	code := run()
	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		return 1, err
	}
	select {
	case err := <-exited:
		return code, err
	case <-time.After(patience):
		return 1, fmt.Errorf("the daemon did not stop")
	}
}

func waitForReady(path string, exited <-chan error) (readyFile, error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if text, err := os.ReadFile(path); err == nil {
			var found readyFile
			return found, json.Unmarshal(text, &found)
		}
		select {
		case err := <-exited:
			return readyFile{}, fmt.Errorf("the daemon ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return readyFile{}, fmt.Errorf("the daemon was not ready in %s", patience)
}

// The administration client of a daemon of this test alone, with this configuration.
func ownDaemon(t *testing.T, config string) *admin.Client {
	t.Helper()
	directory := t.TempDir()
	file := func(name string) string { return filepath.Join(directory, name) }
	must(t, os.WriteFile(file("peeklock.toml"), []byte(config), 0o600))
	daemon := exec.Command(os.Getenv("PEEKLOCK_BIN"), "serve", "--config", file("peeklock.toml"), "--amqp", "127.0.0.1:0",
		"--http", "127.0.0.1:0", "--data-dir", file("data"), "--ready-file", file("ready.json"), "--log-level", "warn")
	daemon.Stderr = os.Stderr
	must(t, daemon.Start())
	exited := make(chan error, 1)
	go func() { exited <- daemon.Wait() }()
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		<-exited
	})
	found, err := waitForReady(file("ready.json"), exited)
	must(t, err)
	options := azcore.ClientOptions{Transport: plain{http.DefaultTransport}}
	client, err := admin.NewClientFromConnectionString(found.TLSConnectionString, &admin.ClientOptions{ClientOptions: options})
	must(t, err)
	return client
}

// The certificates to trust: the daemon's own authority.
func trusted(t *testing.T) *tls.Config {
	t.Helper()
	pem, err := os.ReadFile(ready.CAFile)
	must(t, err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		t.Fatalf("%s holds no certificate", ready.CAFile)
	}
	return &tls.Config{RootCAs: roots}
}

// Sends what the SDK means for https to the same address over http, as Microsoft's sample for its emulator does.
type plain struct{ http.RoundTripper }

func (p plain) Do(request *http.Request) (*http.Response, error) {
	request.URL.Scheme = "http"
	return p.RoundTrip(request)
}

// An administration client as an application makes it, over https and over http.
func administrators(t *testing.T) map[string]*admin.Client {
	t.Helper()
	transports := map[string]azcore.ClientOptions{
		"https": {Transport: &http.Client{Transport: &http.Transport{TLSClientConfig: trusted(t)}}},
		"http":  {Transport: plain{http.DefaultTransport}},
	}
	clients := map[string]*admin.Client{}
	for name, options := range transports {
		client, err := admin.NewClientFromConnectionString(ready.TLSConnectionString, &admin.ClientOptions{ClientOptions: options})
		must(t, err)
		clients[name] = client
	}
	return clients
}

// Clients for messages: over AMQP as with an emulator, and with TLS.
func clients(t *testing.T) map[string]*azservicebus.Client {
	t.Helper()
	plain, err := azservicebus.NewClientFromConnectionString(ready.ConnectionString, nil)
	must(t, err)
	// Given a port, the SDK takes it for a part of the name that the certificate must have, unless told the name.
	config := trusted(t)
	config.ServerName = "localhost"
	encrypted, err := azservicebus.NewClientFromConnectionString(ready.TLSConnectionString, &azservicebus.ClientOptions{TLSConfig: config})
	must(t, err)
	clients := map[string]*azservicebus.Client{"http": plain, "https": encrypted}
	for _, client := range clients {
		t.Cleanup(func() { _ = client.Close(context.Background()) })
	}
	return clients
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// A name that no other test uses.
func unique(t *testing.T) string {
	return strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pointer[T any](value T) *T { return &value }
