package peeklock;

import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.amqp.models.AmqpMessageBodyType;
import com.azure.messaging.servicebus.ServiceBusClientBuilder;
import com.azure.messaging.servicebus.ServiceBusClientBuilder.ServiceBusReceiverClientBuilder;
import com.azure.messaging.servicebus.ServiceBusMessage;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.ServiceBusReceiverAsyncClient;
import com.azure.messaging.servicebus.ServiceBusReceiverClient;
import com.azure.messaging.servicebus.ServiceBusSenderClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.messaging.servicebus.administration.models.CreateSubscriptionOptions;
import com.azure.messaging.servicebus.administration.models.CreateTopicOptions;
import com.azure.messaging.servicebus.models.ServiceBusReceiveMode;
import com.azure.messaging.servicebus.models.SubQueue;
import java.lang.reflect.Field;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.UUID;
import java.util.function.BooleanSupplier;

/** One client: its senders and receivers share a connection, as work of one transaction must. */
final class Bus implements AutoCloseable {
    /** How long a condition may take to come true on a busy machine. */
    static final Duration PATIENCE = Duration.ofSeconds(40);
    static final String SESSION = "s1";

    private final Daemon daemon;
    private final ServiceBusClientBuilder builder;
    private final Deque<AutoCloseable> open = new ArrayDeque<>();

    private Bus(Daemon daemon, String connectionString, boolean crossesEntities) {
        this.daemon = daemon;
        // No retries: they would hide faults of the broker.
        AmqpRetryOptions retry = new AmqpRetryOptions().setMaxRetries(0).setTryTimeout(Duration.ofSeconds(20));
        ServiceBusClientBuilder plain = new ServiceBusClientBuilder().connectionString(connectionString).retryOptions(retry);
        builder = crossesEntities ? plain.enableCrossEntityTransactions() : plain;
    }

    static Bus plain() throws Exception {
        return of(Daemon.get());
    }

    static Bus of(Daemon daemon) {
        return new Bus(daemon, daemon.connectionString(), false);
    }

    /** A client of the daemon behind another address. */
    static Bus through(Daemon daemon, String address) {
        return new Bus(daemon, daemon.connectionString().replaceFirst("sb://[^;/]*", "sb://" + address), false);
    }

    /** A client whose transactions may span entities. */
    static Bus crossEntity() throws Exception {
        return new Bus(Daemon.get(), Daemon.get().connectionString(), true);
    }

    /** Another client of the same daemon. */
    Bus other() {
        return of(daemon);
    }

    /** Another client of the same daemon, closed with this one. */
    Bus second() {
        return keep(other());
    }

    private ServiceBusAdministrationClient administration() {
        return daemon.overHttp();
    }

    String queue() {
        return administration().createQueue("java-" + UUID.randomUUID()).getName();
    }

    String queue(CreateQueueOptions options) {
        return administration().createQueue("java-" + UUID.randomUUID(), options).getName();
    }

    String sessionQueue() {
        return queue(new CreateQueueOptions().setSessionRequired(true));
    }

    /** A topic with the subscription {@code all}, and {@code sessions} which requires sessions. */
    String topic() {
        return topic(new CreateTopicOptions());
    }

    /** As {@link #topic()}. */
    String topic(CreateTopicOptions options) {
        String topic = administration().createTopic("java-" + UUID.randomUUID(), options).getName();
        administration().createSubscription(topic, "all");
        administration().createSubscription(topic, "sessions", new CreateSubscriptionOptions().setSessionRequired(true));
        return topic;
    }

    <T extends AutoCloseable> T keep(T client) {
        open.push(client);
        return client;
    }

    ServiceBusSenderClient sender(String queue) {
        return keep(builder.sender().queueName(queue).buildClient());
    }

    ServiceBusSenderClient topicSender(String topic) {
        return keep(builder.sender().topicName(topic).buildClient());
    }

    /** Receives from a queue, or from {@code TOPIC/Subscriptions/NAME}. */
    ServiceBusReceiverClient receiver(String source) {
        return keep(at(source).disableAutoComplete().buildClient());
    }

    ServiceBusReceiverClient receiveAndDelete(String source) {
        return keep(at(source).receiveMode(ServiceBusReceiveMode.RECEIVE_AND_DELETE).buildClient());
    }

    ServiceBusReceiverClient deadLetters(String source) {
        return keep(at(source).subQueue(SubQueue.DEAD_LETTER_QUEUE).buildClient());
    }

    ServiceBusReceiverAsyncClient asyncReceiver(String source) {
        return keep(at(source).disableAutoComplete().buildAsyncClient());
    }

    private ServiceBusReceiverClientBuilder at(String source) {
        String[] parts = source.split("/Subscriptions/");
        return parts.length == 1 ? builder.receiver().queueName(source)
            : builder.receiver().topicName(parts[0]).subscriptionName(parts[1]);
    }

    ServiceBusReceiverClient session(String queue, String session) {
        var accepting = keep(builder.sessionReceiver().queueName(queue).disableAutoComplete().buildClient());
        return keep(accepting.acceptSession(session));
    }

    ServiceBusReceiverClient nextSession(String queue) {
        return keep(keep(builder.sessionReceiver().queueName(queue).disableAutoComplete().buildClient()).acceptNextSession());
    }

    ServiceBusClientBuilder builder() {
        return builder;
    }

    /** The bodies that another client sees in a queue or subscription, locked and deferred messages too. */
    List<String> seen(String source) {
        try (Bus other = other()) {
            return bodies(other.receiver(source).peekMessages(250, 1));
        }
    }

    /** The same for its dead letters. */
    List<String> seenDead(String source) {
        try (Bus other = other()) {
            return bodies(other.deadLetters(source).peekMessages(250, 1));
        }
    }

    static ServiceBusMessage message(String body) {
        return new ServiceBusMessage(body).setMessageId(body);
    }

    static ServiceBusMessage inSession(String body, String session) {
        return message(body).setSessionId(session);
    }

    static List<String> bodies(Iterable<ServiceBusReceivedMessage> messages) {
        List<String> bodies = new ArrayList<>();
        for (ServiceBusReceivedMessage message : messages) {
            var body = message.getRawAmqpMessage().getBody();
            boolean isValue = body.getBodyType() == AmqpMessageBodyType.VALUE;
            bodies.add(isValue ? body.getValue().toString() : message.getBody().toString());
        }
        return bodies;
    }

    /** Exactly one message, which has to be there. */
    static ServiceBusReceivedMessage one(ServiceBusReceiverClient receiver) {
        return some(receiver, 1).get(0);
    }

    /** Exactly so many messages. */
    static List<ServiceBusReceivedMessage> some(ServiceBusReceiverClient receiver, int count) {
        List<ServiceBusReceivedMessage> found = new ArrayList<>();
        until("only " + found.size() + " of " + count + " messages came", () -> {
            receiver.receiveMessages(count - found.size(), Duration.ofSeconds(5)).forEach(found::add);
            return found.size() == count;
        });
        return found;
    }

    /**
     * Makes the client forget that it has settled a message, for another client to settle it by its lock token. This one refuses
     * to settle a message twice, also after a roll-back, without asking the broker, which is what is tested here.
     */
    static ServiceBusReceivedMessage forgetSettlement(ServiceBusReceivedMessage message) {
        try {
            Field settled = ServiceBusReceivedMessage.class.getDeclaredField("isSettled");
            settled.setAccessible(true);
            settled.setBoolean(message, false);
        } catch (ReflectiveOperationException changed) {
            throw new AssertionError(changed);
        }
        return message;
    }

    /** The conditions and texts of an error and of all that caused it. */
    static String told(Throwable thrown) {
        String told = thrown.toString();
        for (Throwable suppressed : thrown.getSuppressed()) {
            told += " | " + suppressed;
        }
        return thrown.getCause() == null ? told : told + " | " + told(thrown.getCause());
    }

    static void until(String otherwise, BooleanSupplier condition) {
        for (Instant deadline = Instant.now().plus(PATIENCE); !condition.getAsBoolean(); pause()) {
            if (Instant.now().isAfter(deadline)) {
                throw new AssertionError(otherwise);
            }
        }
    }

    private static void pause() {
        try {
            Thread.sleep(20);
        } catch (InterruptedException stopped) {
            throw new AssertionError(stopped);
        }
    }

    @Override
    public void close() {
        while (!open.isEmpty()) {
            try {
                open.pop().close();
            } catch (Exception failure) {
                throw new AssertionError(failure);
            }
        }
    }
}
