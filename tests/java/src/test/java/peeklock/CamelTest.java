package peeklock;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.core.amqp.AmqpRetryOptions;
import com.azure.core.util.BinaryData;
import com.azure.messaging.servicebus.ServiceBusReceivedMessage;
import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.camel.CamelContext;
import org.apache.camel.Exchange;
import org.apache.camel.Processor;
import org.apache.camel.ProducerTemplate;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.component.azure.servicebus.ServiceBusConstants;
import org.apache.camel.impl.DefaultCamelContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Apache Camel's component {@code azure-servicebus}, made by its URI alone. */
class CamelTest {
    private final BlockingQueue<Exchange> received = new LinkedBlockingQueue<>();
    private CamelContext context;
    private ProducerTemplate template;
    private Bus bus;

    @BeforeEach
    void start() throws Exception {
        bus = Bus.plain();
        context = new DefaultCamelContext();
        context.start();
        template = context.createProducerTemplate();
    }

    @AfterEach
    void stop() throws Exception {
        context.stop();
        bus.close();
    }

    private static String uri(String entity, String options) throws Exception {
        return "azure-servicebus:" + entity + "?connectionString=RAW(" + Daemon.get().connectionString() + ")" + options;
    }

    /** A route from a queue or topic. */
    private void route(String entity, String options, Processor processor) throws Exception {
        String from = uri(entity, options);
        context.addRoutes(new RouteBuilder() {
            @Override
            public void configure() {
                from(from).process(processor);
            }
        });
    }

    /** Keeps what came, for the thread of the test. */
    private void keep(Exchange exchange) {
        received.add(exchange.copy());
    }

    private Exchange next() throws InterruptedException {
        Exchange exchange = received.poll(Bus.PATIENCE.toSeconds(), TimeUnit.SECONDS);
        assertTrue(exchange != null, "no message came");
        return exchange;
    }

    private List<String> nextBodies(int count) throws InterruptedException {
        List<String> bodies = new CopyOnWriteArrayList<>();
        for (int i = 0; i < count; i++) {
            bodies.add(next().getMessage().getBody(String.class));
        }
        return bodies;
    }

    private void untilEmpty(String source) {
        Bus.until("not all were completed", () -> bus.seen(source).isEmpty());
    }

    @Test
    void aRouteGetsWhatAnotherSends() throws Exception {
        String queue = bus.queue();
        route(queue, "", this::keep);
        Map<String, Object> headers = new HashMap<>();
        headers.put(ServiceBusConstants.APPLICATION_PROPERTIES, new HashMap<>(Map.of("color", "red", "size", 5)));
        headers.put(ServiceBusConstants.CORRELATION_ID, "correlation");
        template.sendBodyAndHeaders(uri(queue, ""), "hello", headers);
        var message = next().getMessage();
        assertEquals("hello", message.getBody(String.class));
        assertEquals("red", message.getHeader("color"));
        assertEquals(5, message.getHeader("size"));
        assertEquals("correlation", message.getHeader(ServiceBusConstants.CORRELATION_ID));
        assertEquals(1L, message.getHeader(ServiceBusConstants.SEQUENCE_NUMBER));

        template.sendBody(uri(queue, ""), List.of("a", "b", "c"));
        assertEquals(List.of("a", "b", "c"), nextBodies(3));
        template.sendBody(uri(queue, "&binary=true"), new byte[] {0, 1, 2});
        assertArrayEquals(new byte[] {0, 1, 2}, next().getMessage().getBody(BinaryData.class).toBytes());
        untilEmpty(queue);
    }

    @Test
    void scheduledMessagesComeAtTheirTime() throws Exception {
        String queue = bus.queue();
        OffsetDateTime at = OffsetDateTime.now().plusSeconds(2);
        String scheduling = uri(queue, "&producerOperation=scheduleMessages");
        template.sendBodyAndHeader(scheduling, List.of("one", "two"), ServiceBusConstants.SCHEDULED_ENQUEUE_TIME, at);
        template.sendBodyAndHeader(scheduling, "three", ServiceBusConstants.SCHEDULED_ENQUEUE_TIME, at);
        route(queue, "", this::keep);
        for (int i = 0; i < 3; i++) {
            OffsetDateTime enqueued = next().getMessage().getHeader(ServiceBusConstants.ENQUEUED_TIME, OffsetDateTime.class);
            assertTrue(!enqueued.isBefore(at.minusSeconds(1)), "enqueued at " + enqueued + " rather than " + at);
        }
    }

    /** Camel receives from one session at a time, and leaves it after the time-out of an attempt without a message. */
    @Test
    void messagesOfASessionComeInOrder() throws Exception {
        String queue = bus.sessionQueue();
        List<String> sessions = List.of("a", "b", "c");
        List<String> bodies = IntStream.range(0, 10).mapToObj(Integer::toString).toList();
        for (String session : sessions) {
            template.sendBody(uri(queue, "&sessionId=" + session), bodies);
        }
        Map<String, List<String>> perSession = new ConcurrentHashMap<>();
        context.getRegistry().bind("short", new AmqpRetryOptions().setTryTimeout(Duration.ofSeconds(2)));
        route(queue, "&sessionEnabled=true&amqpRetryOptions=#short", exchange -> {
            var message = exchange.getMessage();
            String session = message.getHeader(ServiceBusConstants.SESSION_ID, String.class);
            perSession.computeIfAbsent(session, any -> new CopyOnWriteArrayList<>()).add(message.getBody(String.class));
            keep(exchange);
        });
        nextBodies(sessions.size() * bodies.size());
        sessions.forEach(session -> assertEquals(bodies, perSession.get(session)));
    }

    @Test
    void aFailedRouteAbandonsUntilTheMessageIsDeadLettered() throws Exception {
        String queue = bus.queue(new CreateQueueOptions().setMaxDeliveryCount(2));
        route(queue, "", exchange -> {
            keep(exchange);
            throw new IllegalStateException("as it should");
        });
        template.sendBody(uri(queue, ""), "bad");
        ServiceBusReceivedMessage dead = Bus.one(bus.deadLetters(queue));
        assertEquals("MaxDeliveryCountExceeded", dead.getDeadLetterReason());
        assertEquals(List.of("bad", "bad"), nextBodies(2));
    }

    /** The description is the stack trace, longer than the 4096 characters that the SDK of .NET accepts. */
    @Test
    void aFailedRouteDeadLettersWithItsStackTrace() throws Exception {
        String queue = bus.queue();
        route(queue, "&enableDeadLettering=true", exchange -> fail(200));
        template.sendBody(uri(queue, ""), "bad");
        route(queue, "&subQueue=DEAD_LETTER_QUEUE", this::keep);
        var dead = next().getMessage();
        assertEquals("java.lang.IllegalStateException: as it should", dead.getHeader(ServiceBusConstants.DEAD_LETTER_REASON));
        String trace = dead.getHeader(ServiceBusConstants.DEAD_LETTER_ERROR_DESCRIPTION, String.class);
        assertTrue(trace.length() > 4096 && trace.contains("CamelTest.fail"), trace);
        untilEmpty(queue);
    }

    private static void fail(int depth) {
        if (depth == 0) {
            throw new IllegalStateException("as it should");
        }
        fail(depth - 1);
    }

    @Test
    void subscriptionsInBothModesWithAndWithoutSessions() throws Exception {
        String topic = bus.topic();
        route(topic, "&serviceBusType=topic&subscriptionName=all&prefetchCount=10", this::keep);
        route(topic, "&serviceBusType=topic&subscriptionName=sessions&sessionEnabled=true"
            + "&serviceBusReceiveMode=RECEIVE_AND_DELETE", this::keep);
        template.sendBody(uri(topic, "&serviceBusType=topic&sessionId=s"), "news");
        assertEquals(List.of("news", "news"), nextBodies(2));
        untilEmpty(topic + "/Subscriptions/all");
        untilEmpty(topic + "/Subscriptions/sessions");
    }
}
