package peeklock;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.azure.messaging.servicebus.administration.models.CreateQueueOptions;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;
import org.springframework.core.env.MapPropertySource;
import org.springframework.jms.annotation.EnableJms;
import org.springframework.jms.annotation.JmsListener;
import org.springframework.jms.config.DefaultJmsListenerContainerFactory;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.jms.core.MessageCreator;

/** Spring's {@code @JmsListener} over {@code azure-servicebus-jms}: {@code DefaultMessageListenerContainer} as it is made. */
class SpringListenerTest {
    private static final String FAILS = "fails";

    /** What the listener got, failures included. */
    private static final List<String> RECEIVED = new CopyOnWriteArrayList<>();

    @Configuration
    @EnableJms
    static class Application {
        @Bean
        ConnectionFactory connectionFactory() throws Exception {
            return Jms.factory();
        }

        @Bean
        DefaultJmsListenerContainerFactory jmsListenerContainerFactory(ConnectionFactory connections,
            Environment environment) {
            var factory = new DefaultJmsListenerContainerFactory();
            factory.setConnectionFactory(connections);
            if (environment.containsProperty("transacted")) {
                factory.setSessionTransacted(true);
            }
            return factory;
        }

        @JmsListener(destination = "${queue}", selector = "${selector:}")
        void receive(Message message) throws JMSException {
            String body = Jms.body(message);
            RECEIVED.add(body);
            if (body.equals(FAILS)) {
                throw new IllegalStateException("as it should");
            }
        }
    }

    private static AnnotationConfigApplicationContext start(Map<String, Object> properties) {
        RECEIVED.clear();
        var context = new AnnotationConfigApplicationContext();
        context.getEnvironment().getPropertySources().addFirst(new MapPropertySource("test", properties));
        context.register(Application.class);
        context.refresh();
        return context;
    }

    private static List<String> send(Bus bus, String queue, int count) {
        List<String> bodies = IntStream.range(0, count).mapToObj(Integer::toString).toList();
        bus.sender(queue).sendMessages(bodies.stream().map(Bus::message).toList());
        return bodies;
    }

    @Test
    void aListenerWithDefaultSettingsGetsEveryMessage() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            List<String> sent = send(bus, queue, 50);
            try (var context = start(Map.of("queue", queue))) {
                Bus.until("messages are missing", () -> RECEIVED.size() >= 50);
                var template = new JmsTemplate(context.getBean(ConnectionFactory.class));
                template.send(queue, (MessageCreator) session -> session.createTextMessage("more"));
                Bus.until("a message is missing", () -> RECEIVED.contains("more"));
                Bus.until("messages are left", () -> bus.seen(queue).isEmpty());
            }
            assertEquals(sent, RECEIVED.subList(0, 50));
            assertEquals(51, RECEIVED.size());
        }
    }

    @Test
    void aTransactedListenerCommitsAndFailedMessagesAreDeadLettered() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue(new CreateQueueOptions().setMaxDeliveryCount(3));
            bus.sender(queue).sendMessage(Bus.message(FAILS));
            send(bus, queue, 20);
            try (var context = start(Map.of("queue", queue, "transacted", true))) {
                Bus.until("the message is not dead-lettered", () -> bus.seenDead(queue).equals(List.of(FAILS)));
                Bus.until("messages are left", () -> bus.seen(queue).isEmpty());
            }
            assertEquals(3, RECEIVED.stream().filter(FAILS::equals).count());
            assertEquals(20, RECEIVED.stream().filter(body -> !body.equals(FAILS)).distinct().count());
        }
    }

    @Test
    void aListenerWithASelectorGetsMatchingMessages() throws Exception {
        try (Bus bus = Bus.plain()) {
            String queue = bus.queue();
            send(bus, queue, 5);
            try (var context = start(Map.of("queue", queue, "selector", "JMSMessageID = '3'"))) {
                Bus.until("the message is missing", () -> RECEIVED.equals(List.of("3")));
                Bus.until("it was not completed", () -> bus.seen(queue).equals(List.of("0", "1", "2", "4")));
            }
        }
    }
}
