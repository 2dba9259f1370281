package peeklock;

import com.azure.core.http.HttpPipelineNextPolicy;
import com.azure.core.http.HttpPipelineCallContext;
import com.azure.core.http.HttpResponse;
import com.azure.core.http.policy.HttpPipelinePolicy;
import com.azure.core.util.UrlBuilder;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClientBuilder;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.MalformedURLException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import reactor.core.publisher.Mono;

/** A daemon as a child process, stopped with the process of the tests. */
final class Daemon {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final String PASSWORD = "changeit";
    private static final int HTTPS_PORT = 443;
    private static final int AMQPS_PORT = 5671;
    /** Ports that some clients insist on. */
    private static final List<Integer> FIXED_PORTS = List.of(HTTPS_PORT, AMQPS_PORT);
    private static Daemon running;

    /** What the daemon wrote once it accepted connections. */
    private final JsonNode ready;
    /** Those of {@link #FIXED_PORTS} that it serves. */
    private final List<Integer> fixed;

    private Daemon(JsonNode ready, List<Integer> fixed) {
        this.ready = ready;
        this.fixed = fixed;
    }

    /** One daemon for all tests, started when first asked for. */
    static synchronized Daemon get() throws Exception {
        if (running == null) {
            List<Integer> free = FIXED_PORTS.stream().filter(Daemon::isFree).toList();
            running = start("[[queues]]\nname = \"unused\"\n", free);
            running.trust();
        }
        return running;
    }

    /** A daemon of one test alone, with this TOML. */
    static Daemon start(String config) throws Exception {
        return start(config, List.of());
    }

    private static Daemon start(String config, List<Integer> fixed) throws Exception {
        String binary = System.getenv("PEEKLOCK_BIN");
        if (binary == null) {
            throw new IllegalStateException("PEEKLOCK_BIN must name the daemon; ./test.sh java sets it");
        }
        Path directory = Files.createTempDirectory("peeklock-java-");
        Path file = directory.resolve("ready.json");
        Path toml = Files.writeString(directory.resolve("peeklock.toml"), config);
        List<String> command = new ArrayList<>(List.of(binary, "serve", "--config", toml.toString(), "--amqp", "127.0.0.1:0",
            "--http", "127.0.0.1:0", "--data-dir", directory.resolve("data").toString(), "--ready-file", file.toString(),
            "--log-level", "warn"));
        if (!fixed.isEmpty()) {
            String addresses = fixed.stream().map(port -> "127.0.0.1:" + port).collect(Collectors.joining(","));
            command.addAll(List.of("--also-listen", addresses));
        }
        Process process = new ProcessBuilder(command).redirectErrorStream(true)
            .redirectOutput(directory.resolve("log").toFile()).start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(process, directory)));
        for (Instant deadline = Instant.now().plus(PATIENCE); Instant.now().isBefore(deadline);) {
            if (Files.exists(file)) {
                return new Daemon(new ObjectMapper().readTree(file.toFile()), fixed);
            }
            if (!process.isAlive()) {
                break;
            }
            Thread.sleep(10);
        }
        throw new IllegalStateException("the daemon does not start:\n" + Files.readString(directory.resolve("log")));
    }

    private static void stop(Process process, Path directory) {
        try {
            process.destroy();
            process.waitFor();
            try (var files = Files.walk(directory)) {
                files.sorted((one, other) -> other.compareTo(one)).map(Path::toFile).forEach(File::delete);
            }
        } catch (IOException | InterruptedException failure) {
            System.err.println(failure);
        }
    }

    private static boolean isFree(int port) {
        try (ServerSocket socket = new ServerSocket(port, 1, InetAddress.getByName("127.0.0.1"))) {
            return socket.isBound();
        } catch (IOException taken) {
            return false;
        }
    }

    /** Trusts the daemon's authority, as {@code keytool -importcert} and {@code -Djavax.net.ssl.trustStore} would. */
    private void trust() throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        try (InputStream pem = Files.newInputStream(Path.of(ready.get("ca_file").asText()))) {
            store.setCertificateEntry("peeklock", CertificateFactory.getInstance("X.509").generateCertificate(pem));
        }
        Path file = Files.createTempFile("peeklock-", ".p12");
        file.toFile().deleteOnExit();
        try (OutputStream out = Files.newOutputStream(file)) {
            store.store(out, PASSWORD.toCharArray());
        }
        System.setProperty("javax.net.ssl.trustStore", file.toString());
        System.setProperty("javax.net.ssl.trustStorePassword", PASSWORD);
        System.setProperty("javax.net.ssl.trustStoreType", "PKCS12");
    }

    /** For messages, over AMQP without TLS: the builder then keeps the port. */
    String connectionString() {
        return ready.get("connection_string").asText();
    }

    /** Where AMQP is served: {@code ADDR:PORT}. */
    String amqp() {
        return ready.get("amqp").asText();
    }

    /** Whether the daemon could have the port that the administration client insists on. */
    boolean servesHttpsPort() {
        return fixed.contains(HTTPS_PORT);
    }

    /** Whether the daemon could have the port that older clients for messages insist on. */
    boolean servesAmqpsPort() {
        return fixed.contains(AMQPS_PORT);
    }

    /** The unmodified client. It drops the port of the connection string and uses https. */
    ServiceBusAdministrationClient overHttps() {
        return new ServiceBusAdministrationClientBuilder().connectionString(connectionString()).buildClient();
    }

    /** The client with the policy that Microsoft's sample for its emulator adds. */
    ServiceBusAdministrationClient overHttp() {
        return new ServiceBusAdministrationClientBuilder().connectionString(connectionString())
            .addPolicy(new OverHttp(ready.get("http").asText())).buildClient();
    }

    private record OverHttp(String address) implements HttpPipelinePolicy {
        @Override
        public Mono<HttpResponse> process(HttpPipelineCallContext context, HttpPipelineNextPolicy next) {
            int colon = address.lastIndexOf(':');
            try {
                UrlBuilder url = UrlBuilder.parse(context.getHttpRequest().getUrl()).setScheme("http")
                    .setHost(address.substring(0, colon)).setPort(address.substring(colon + 1));
                context.getHttpRequest().setUrl(url.toUrl());
            } catch (MalformedURLException failure) {
                return Mono.error(failure);
            }
            return next.process();
        }
    }
}
