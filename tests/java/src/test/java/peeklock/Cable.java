package peeklock;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** Passes bytes on between a client and a daemon until it is cut, and once more after that. */
final class Cable implements AutoCloseable {
    private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
    private final List<Socket> sockets = new CopyOnWriteArrayList<>();
    private final int port;

    Cable(String address) throws IOException {
        port = Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
        start(this::accept);
    }

    /** Where the client connects. */
    String address() {
        return "localhost:" + listener.getLocalPort();
    }

    /** Ends every connection, unannounced. */
    void cut() throws IOException {
        for (Socket socket : sockets) {
            socket.close();
        }
        sockets.clear();
    }

    private void accept() throws IOException {
        while (true) {
            Socket client = listener.accept();
            Socket daemon = new Socket(InetAddress.getByName("127.0.0.1"), port);
            sockets.addAll(List.of(client, daemon));
            start(() -> pump(client, daemon));
            start(() -> pump(daemon, client));
        }
    }

    private static void pump(Socket from, Socket to) throws IOException {
        try (from; to; InputStream in = from.getInputStream(); OutputStream out = to.getOutputStream()) {
            in.transferTo(out);
        }
    }

    private interface Work {
        void run() throws IOException;
    }

    private static void start(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (IOException cut) {
                // The end of what this thread is for.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void close() throws IOException {
        listener.close();
        cut();
    }
}
