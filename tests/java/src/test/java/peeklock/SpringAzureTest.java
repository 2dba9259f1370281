package peeklock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import com.azure.spring.cloud.service.servicebus.consumer.ServiceBusErrorHandler;
import com.azure.spring.cloud.service.servicebus.consumer.ServiceBusRecordMessageListener;
import com.azure.spring.cloud.service.servicebus.properties.ServiceBusEntityType;
import com.azure.spring.messaging.servicebus.core.DefaultServiceBusNamespaceConsumerFactory;
import com.azure.spring.messaging.servicebus.core.DefaultServiceBusNamespaceProcessorFactory;
import com.azure.spring.messaging.servicebus.core.DefaultServiceBusNamespaceProducerFactory;
import com.azure.spring.messaging.servicebus.core.ServiceBusTemplate;
import com.azure.spring.messaging.servicebus.core.listener.ServiceBusMessageListenerContainer;
import com.azure.spring.messaging.servicebus.core.properties.ConsumerProperties;
import com.azure.spring.messaging.servicebus.core.properties.NamespaceProperties;
import com.azure.spring.messaging.servicebus.core.properties.ServiceBusContainerProperties;
import com.azure.spring.messaging.servicebus.support.ServiceBusMessageHeaders;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.messaging.support.MessageBuilder;

/** Spring Cloud Azure: {@code ServiceBusTemplate} and the listener container behind {@code @ServiceBusListener}. */
class SpringAzureTest {
    private final List<String> received = new CopyOnWriteArrayList<>();
    private DefaultServiceBusNamespaceProcessorFactory processors;
    private DefaultServiceBusNamespaceProducerFactory producers;
    private ServiceBusTemplate template;
    private ServiceBusMessageListenerContainer container;
    private Bus bus;

    @BeforeEach
    void start() throws Exception {
        bus = Bus.plain();
        NamespaceProperties namespace = new NamespaceProperties();
        namespace.setConnectionString(Daemon.get().connectionString());
        processors = new DefaultServiceBusNamespaceProcessorFactory(namespace);
        producers = new DefaultServiceBusNamespaceProducerFactory(namespace);
        ConsumerProperties replies = new ConsumerProperties();
        replies.setSessionEnabled(true);
        var consumers = new DefaultServiceBusNamespaceConsumerFactory(namespace, entity -> replies);
        template = new ServiceBusTemplate(producers, consumers);
        template.setDefaultEntityType(ServiceBusEntityType.QUEUE);
    }

    @AfterEach
    void stop() {
        if (container != null) {
            container.stop();
        }
        producers.destroy();
        processors.destroy();
        bus.close();
    }

    private static ServiceBusContainerProperties from(String queue) {
        ServiceBusContainerProperties properties = new ServiceBusContainerProperties();
        properties.setEntityName(queue);
        properties.setEntityType(ServiceBusEntityType.QUEUE);
        return properties;
    }

    private void listen(ServiceBusContainerProperties properties, ServiceBusRecordMessageListener listener) {
        properties.setMessageListener(listener);
        properties.setErrorHandler((ServiceBusErrorHandler) failure -> { });
        container = new ServiceBusMessageListenerContainer(processors, properties);
        container.start();
    }

    private void send(String entity, String body, Map<String, Object> headers) {
        template.sendAsync(entity, MessageBuilder.withPayload(body).copyHeaders(headers).build()).block(Bus.PATIENCE);
    }

    private void untilReceived(int count) {
        Bus.until("only " + received.size() + " of " + count + " messages came", () -> received.size() >= count);
    }

    @Test
    void aListenerGetsWhatTheTemplateSends() {
        String queue = bus.queue();
        ServiceBusContainerProperties properties = from(queue);
        properties.setMaxConcurrentCalls(4);
        properties.setPrefetchCount(20);
        listen(properties, context -> received.add(context.getMessage().getBody() + " "
            + context.getMessage().getApplicationProperties().get("color")));
        IntStream.range(0, 50).forEach(i -> send(queue, Integer.toString(i), Map.of("color", "red")));
        untilReceived(50);
        assertTrue(received.containsAll(List.of("0 red", "49 red")), received.toString());
        Bus.until("not all were completed", () -> bus.seen(queue).isEmpty());
    }

    @Test
    void aSubscriptionWithSessionsIsReadInOrder() {
        String topic = bus.topic();
        template.setDefaultEntityType(ServiceBusEntityType.TOPIC);
        List<String> bodies = IntStream.range(0, 8).mapToObj(Integer::toString).toList();
        for (String session : List.of("a", "b", "c")) {
            bodies.forEach(body -> send(topic, body, Map.of(ServiceBusMessageHeaders.SESSION_ID, session)));
        }
        ServiceBusContainerProperties properties = from(topic);
        properties.setEntityType(ServiceBusEntityType.TOPIC);
        properties.setSubscriptionName("sessions");
        properties.setSessionEnabled(true);
        properties.setMaxConcurrentSessions(2);
        properties.setSessionIdleTimeout(Duration.ofSeconds(1));
        Map<String, List<String>> perSession = new ConcurrentHashMap<>();
        listen(properties, context -> {
            String session = context.getMessage().getSessionId();
            perSession.computeIfAbsent(session, any -> new CopyOnWriteArrayList<>()).add(context.getMessage().getBody().toString());
            received.add(session);
        });
        untilReceived(24);
        assertEquals(Map.of("a", bodies, "b", bodies, "c", bodies), perSession);
    }

    @Test
    void aFailedListenerAbandonsUntilTheMessageIsDeadLettered() {
        String queue = bus.queue(new CreateQueueOptions().setMaxDeliveryCount(3));
        listen(from(queue), context -> {
            received.add(context.getMessage().getBody().toString());
            throw new IllegalStateException("as it should");
        });
        send(queue, "bad", Map.of());
        assertEquals("MaxDeliveryCountExceeded", Bus.one(bus.deadLetters(queue)).getDeadLetterReason());
        assertEquals(List.of("bad", "bad", "bad"), received);
    }

    /** A request: the reply is received from a session of the reply queue, named by the request. */
    @Test
    void aRequestGetsItsReply() {
        String requests = bus.queue();
        String replies = bus.sessionQueue();
        listen(from(requests), context -> {
            var request = context.getMessage();
            bus.sender(request.getReplyTo()).sendMessage(
                Bus.inSession("re: " + request.getBody(), request.getReplyToSessionId()));
        });
        var request = MessageBuilder.withPayload("question").setHeader("replyChannel", replies).build();
        assertEquals("re: question", template.sendAndReceive(requests, request).getBody().toString());
    }
}
